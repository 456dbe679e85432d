"""The API and the pages over HTTP. The CLI and lab may import http.server, http.contract and http.web."""
