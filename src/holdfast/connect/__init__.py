"""Put the waiting room in front of your own routes: middleware for any Python shop, ASGI or WSGI.

Passes are checked here, offline, by the public keys that Holdfast publishes; no request of a buyer waits for another
server. Needs joserfc and nothing else. See docs/CONNECT.md.
"""

from holdfast.connect.asgi import RoomMiddleware
from holdfast.connect.gatekeeper import Gatekeeper
from holdfast.connect.keys import PublishedKeys
from holdfast.connect.passes import Pass
from holdfast.connect.wsgi import WsgiRoomMiddleware

__all__ = ["Gatekeeper", "Pass", "PublishedKeys", "RoomMiddleware", "WsgiRoomMiddleware"]
