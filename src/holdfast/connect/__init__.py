"""Middleware that puts the waiting room in front of your own routes, for any ASGI or WSGI application.

Your application imports it; Holdfast itself does not, and it imports nothing else of Holdfast. Passes are verified
offline with Holdfast's published public keys, so no buyer's request waits for another server. Needs only joserfc. See
docs/CONNECT.md.
"""

from holdfast.connect.asgi import RoomMiddleware
from holdfast.connect.gatekeeper import Gatekeeper
from holdfast.connect.keys import PublishedKeys
from holdfast.connect.passes import Pass
from holdfast.connect.wsgi import WsgiRoomMiddleware

__all__ = ["Gatekeeper", "Pass", "PublishedKeys", "RoomMiddleware", "WsgiRoomMiddleware"]
