"""Refusals: recorded off the hot path, archived in compact segments, searched on demand.

Every layer above may import it.
"""
