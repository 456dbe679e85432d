"""The caches in front of Holdfast: what empties them when a sale changes, and what fills them before it opens.

Bootstrap, http, edge, cli and lab may import it.
"""
