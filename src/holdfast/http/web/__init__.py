"""Pages for people, their files, and the API reference; nothing is loaded from another host.

Only http.server and lab may import it.
"""
