"""Infrastructure without business rules: batching, agents, backoff, health checks, limits, metrics, logs.

Every layer above may import it. It imports only the domain and errors.
"""
