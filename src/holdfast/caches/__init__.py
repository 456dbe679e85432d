"""Purges the caches in front of Holdfast when a sale changes, and warms them before it opens.

Every layer above may import it.
"""
