"""Refusals: recorded off the hot path, archived in compact segments, searched on demand.

Bootstrap, http, the CLI and lab may import it.
"""
