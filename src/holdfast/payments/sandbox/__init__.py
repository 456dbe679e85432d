"""A payment service of our own for demos, rehearsals and tests: a separate process, with faults on demand."""
