"""One simulated buyer, and the worker process that runs many of them. Imported by the rest of rush."""
