"""A single-file Django shop with a waiting room in front of its checkout: `python shop.py runserver 8100`."""

import os
import sys

from django.conf import settings
from django.core.management import execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from holdfast_connect import Gatekeeper, PublishedKeys, WsgiRoomMiddleware

ROOM = os.environ.get("HOLDFAST_URL", "http://127.0.0.1:8000")
SALE = os.environ.get("SALE_ID", "demo")

settings.configure(
    ALLOWED_HOSTS=["127.0.0.1", "localhost"],
    ROOT_URLCONF=__name__,
    SECRET_KEY=os.environ.get("DJANGO_SECRET_KEY", "for this example only"),
    WSGI_APPLICATION=f"{__name__}.application",
)


def front(_request: HttpRequest) -> JsonResponse:
    return JsonResponse({"shop": "open to all"})


def checkout(request: HttpRequest) -> JsonResponse:
    admitted = request.environ["holdfast.pass"]
    return JsonResponse({"buyer": admitted.buyer_id, "sale": admitted.sale_id})


urlpatterns = [path("", front), path("checkout", checkout)]

gatekeeper = Gatekeeper(
    SALE,
    PublishedKeys(f"{ROOM}/.well-known/jwks.json"),
    paths=["/checkout"],
    waiting_url=f"{ROOM}/s/{SALE}",
    origin=os.environ.get("SHOP_URL", "http://127.0.0.1:8100"),
    # The signed-in user; a header stands in for your shop's session.
    buyer_of=lambda visit: visit.headers.get("x-shop-buyer"),
)
application = WsgiRoomMiddleware(get_wsgi_application(), gatekeeper)

if __name__ == "__main__":
    execute_from_command_line(sys.argv)
