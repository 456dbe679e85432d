"""One pool split over several keys, so that a cluster decides it on more than one node.

Only gate.redis may import it.
"""
