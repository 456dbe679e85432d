"""Stripe as a payment provider: cards, authorised first and captured later."""
