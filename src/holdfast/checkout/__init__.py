"""The use cases of buyers: reserve, purchase, look up, confirm, extend, cancel. Bootstrap and http may import it."""
