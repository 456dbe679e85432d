"""Stripe as a payment provider: cards, authorised first and captured later. Payments and http may import it."""
