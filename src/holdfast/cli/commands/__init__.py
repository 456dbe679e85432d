"""The commands of the product, one file each. cli.app loads them by name; nothing else may import them."""
