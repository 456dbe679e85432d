"""Serving: granian, RSGI and ASGI, the router built from the endpoint table, supervision.

The CLI and lab may import it.
"""
