"""The transport to Redis: addresses, connections, topologies, and the durability check.

gate.redis, `holdfast doctor`, and code that validates addresses may import it.
"""
