"""How transactions run on SQLite and PostgreSQL: connections, clocks, locks and row types.

Every package that uses the ledger may import it. It knows no subject.
"""
