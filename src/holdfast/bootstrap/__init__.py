"""Builds running services from the settings. Nothing else wires services. Every layer above may import it."""
