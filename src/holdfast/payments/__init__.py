"""Who moves the money."""
