"""The server under test: start it, create sales, sample stock, read its ledger. Imported by rush and demo."""
