"""From reservation to order: what happens after the decision, in the background."""
