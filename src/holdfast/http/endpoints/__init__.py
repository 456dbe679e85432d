"""One file per resource: an endpoint calls a use case and maps its result. Only http.server may import it."""
