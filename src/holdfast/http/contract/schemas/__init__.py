"""Request and response bodies, one Struct each, for msgspec and OpenAPI. All of http and the CLI may import it.

Decoding is strict: no quoted numbers, no unknown fields. Structs named `In` or `Query` are read, `Out` are written.
"""
