"""The click stream: what visitors of a sale do, for analysis. It may lose clicks, but never delays a request.

Every layer above streams may import it.
"""
