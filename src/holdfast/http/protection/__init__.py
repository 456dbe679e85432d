"""Rate limits, load shedding, slow clients and cookies. The rest of http may import it."""
