"""The use cases of buyers: reserve, purchase, look up, confirm, extend, cancel. Every layer above may import it."""
