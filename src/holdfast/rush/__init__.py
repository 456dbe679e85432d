"""A crowd before the crowd: simulated buyers against a real server, and the books checked against what each saw."""
