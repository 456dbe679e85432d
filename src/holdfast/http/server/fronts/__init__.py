"""Several processes that speak HTTP, the fronts, and one that decides, the core.

Only http.server may import it (docs/adr/0017-fronts-and-a-core.md).
"""
