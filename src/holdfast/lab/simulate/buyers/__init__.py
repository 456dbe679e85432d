"""Simulated buyers, their requests to the servers, and the answers each of them got. Imported by simulate."""
