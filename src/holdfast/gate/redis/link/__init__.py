"""The transport to Redis: addresses, connections, topologies, and the durability check.

Only gate.redis, settings and `holdfast doctor` may import it.
"""
