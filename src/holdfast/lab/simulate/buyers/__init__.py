"""Simulated buyers, their requests to the servers, and the responses they got. Imported by simulate."""
