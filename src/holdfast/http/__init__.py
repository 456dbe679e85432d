"""The way in: fast lane, routes, errors, identity."""
