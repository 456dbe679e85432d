"""The read-only checks of `holdfast doctor`. Only its command may import them."""
