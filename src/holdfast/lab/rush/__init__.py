"""Simulated buyers against a real server, and the ledger checked against what they saw. Imported by demo and
commands."""
