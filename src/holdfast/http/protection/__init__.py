"""Rate limits, load shedding, slow clients and cookies. http.server and http.endpoints may import it."""
