"""Sales: create, change, open, pause, restock and close them. Every layer above may import it."""
