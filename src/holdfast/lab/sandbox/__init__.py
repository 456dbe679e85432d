"""A payment service with faults on demand, for demos, load tests and tests. Imported by simulate and commands."""
