"""Payment providers behind one port.

Every layer above may import it. It imports only runtime, domain, errors and the providers' libraries.
"""
