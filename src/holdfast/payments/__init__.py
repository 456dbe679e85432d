"""Payment providers behind one port.

Settlement, bootstrap, http and lab may import it. It imports only runtime, errors and the providers' libraries.
"""
