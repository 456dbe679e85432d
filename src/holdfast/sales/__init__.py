"""Sales: create, change, open, pause, restock and close them. Checkout and every layer above it may import it."""
