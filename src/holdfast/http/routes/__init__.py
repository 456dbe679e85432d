"""Routes of the slow lane, one file per noun."""
