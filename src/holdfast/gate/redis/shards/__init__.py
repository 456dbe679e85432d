"""A pool split over several keys, so that more than one node of a cluster decides it.

Only gate.redis may import it.
"""
