"""Erasing a buyer: their ID becomes a pseudonym in the books and in the history, and the rest is deleted (ADR 20)."""
