"""How transactions run on SQLite and PostgreSQL: connections, clocks, locks and row types.

The ledger and every layer above may import it. It knows no subject.
"""
