"""The waiting room: joining, advancing, tickets, passes, proof of work.

Checkout, bootstrap, http and lab may import it.
"""
