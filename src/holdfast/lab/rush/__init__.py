"""Simulated buyers against a real server, and checks of the ledger against their records.

Imported by demo and commands.
"""
