"""The page `/simulation` of `holdfast demo`: a sale on a real server with faults on demand, beside simpler shops.

The demo starts it; nothing imports it.
"""
