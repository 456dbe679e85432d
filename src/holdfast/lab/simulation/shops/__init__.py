"""The simple shops: ways to sell that tutorials show, each on a real SQLite file or a real Redis."""
