"""What comes back into a ledger that went back."""
