"""The HTTP contract as data: endpoints, schemas, problems, and what is derived from them.

All of http and the CLI may import it. Nothing here handles a request.
"""
