"""Processes that speak HTTP, the fronts, and one that decides, the core (docs/adr/0017-fronts-and-a-core.md).

The rest of `http.server` starts it, and imports nothing else of it.
"""
