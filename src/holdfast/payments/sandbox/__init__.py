"""The client of the sandbox, a payment service with faults on demand for demos, load tests and tests.

Payments, http and lab may import it.
"""
