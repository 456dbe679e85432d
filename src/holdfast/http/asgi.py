"""The documented entry point for ASGI servers: `uvicorn --factory holdfast.http.asgi:create_app`."""

from holdfast.http.server.asgi import create_app

__all__ = ["create_app"]
