"""Read replicas: reads that need not be done by the primary, and never say less than was known when they began."""
