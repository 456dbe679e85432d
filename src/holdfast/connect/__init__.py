"""Middleware that puts the waiting room in front of your own routes, for any ASGI or WSGI application.

Your application imports it; Holdfast itself does not, and it imports nothing else of Holdfast. Passes are verified
offline with Holdfast's published public keys, so no buyer's request waits for another server. Needs only joserfc. Its
imports are relative, because it is also a distribution of its own, `holdfast_connect`. See docs/CONNECT.md.
"""

from .asgi import RoomMiddleware
from .gatekeeper import Gatekeeper
from .keys import PublishedKeys
from .passes import Pass
from .visit import Visit
from .wsgi import WsgiRoomMiddleware

__all__ = ["Gatekeeper", "Pass", "PublishedKeys", "RoomMiddleware", "Visit", "WsgiRoomMiddleware"]
