"""The gate on Redis or Valkey: client, functions, journal, drainer, rebuilder.

Bootstrap opens it; settings, access and the CLI may import its addresses and checks.
"""
