"""The gate on Redis or Valkey: client, functions, journal, drainer, rebuilder.

Bootstrap, settings, the CLI and lab may import it.
"""
