"""Who may come in, and when."""
