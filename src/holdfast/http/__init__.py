"""The API and the pages over HTTP. The edge, the CLI and lab may import it."""
