"""The edge: configurations for the proxies in front of Holdfast, and what fills and empties their caches.

The command line and the lab may import it.
"""
