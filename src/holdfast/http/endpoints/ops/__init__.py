"""Endpoints for operators: health, metrics, lag, features. http.endpoints, http.server and lab may import it."""
