"""The way to Redis: where it is, how to speak to it, and whether it can be trusted with stock."""
