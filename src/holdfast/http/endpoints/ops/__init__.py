"""For operators and shops: how far behind, what is on."""
