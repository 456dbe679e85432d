"""What is durably true."""
