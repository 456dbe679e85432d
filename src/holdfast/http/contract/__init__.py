"""The HTTP contract as data: endpoints, schemas, problems, and what is derived from them.

Every layer above may import it. Nothing here handles a request.
"""
