"""One simulated buyer, and the worker process that runs many of them. The bottom of rush."""
