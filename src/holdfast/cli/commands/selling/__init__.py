"""Commands for sales and drops."""
