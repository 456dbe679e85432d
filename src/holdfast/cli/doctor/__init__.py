"""The checks of `holdfast doctor`, which are read-only. Only its command may import them."""
