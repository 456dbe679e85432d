"""One file per resource: an endpoint calls a use case and maps its result.

http.server may import them; the CLI and lab may import their tables.
"""
