"""Simple shops as tutorials show them, each on a real SQLite file or a real Redis. Imported by simulation."""
