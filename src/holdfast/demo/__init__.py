"""A first minute worth having: a small sale, a crowd that wants it, and a place in line for whoever opens the page."""
