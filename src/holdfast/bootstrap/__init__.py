"""Builds running services from the settings. Nothing else wires services. The CLI, http and lab may import it."""
