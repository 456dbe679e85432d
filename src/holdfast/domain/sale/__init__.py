"""The rules of a sale: its window, limits and price, and how a payment settles. Every package may import it."""
