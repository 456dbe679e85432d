"""Infrastructure without business rules: batching, agents, backoff, health checks, limits, metrics, logs.

Every package above it may import it. It imports only the domain and errors.
"""
