"""Calling the Inventory API, and what every answer has in common."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

import httpx

from quiet_time import QuietTime

T = TypeVar("T")

RFC3339_UTC_MS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")


@dataclass(frozen=True)
class Shop:
    """One pool, over HTTP."""

    client: httpx.Client
    sku_id: str

    @property
    def path(self) -> str:
        return f"/v1/inventory/{self.sku_id}"

    def provision(self, units: int, **more: object) -> httpx.Response:
        return self.client.put(self.path, json={"total_units": units} | more)

    def available(self) -> httpx.Response:
        return self.client.get(f"{self.path}/available")

    def reserve(self, owner_id: str = "ada", quantity: int = 1, **more: object) -> httpx.Response:
        return self.client.post(f"{self.path}/reserve", json={"owner_id": owner_id, "quantity": quantity} | more)

    def hold(self, owner_id: str = "ada", quantity: int = 1, **more: object) -> str:
        """The id of a new reservation."""
        return str(body_of(self.reserve(owner_id, quantity, **more))["reservation_id"])

    def confirm(self, reservation_id: str) -> httpx.Response:
        return self.client.post(f"/v1/reservations/{reservation_id}/confirm")

    def extend(self, reservation_id: str, ttl_seconds: int) -> httpx.Response:
        return self.client.post(f"/v1/reservations/{reservation_id}/extend", json={"ttl_seconds": ttl_seconds})

    def cancel(self, reservation_id: str) -> httpx.Response:
        return self.client.delete(f"/v1/reservations/{reservation_id}")

    def show(self, reservation_id: str) -> httpx.Response:
        return self.client.get(f"/v1/reservations/{reservation_id}")

    def events(self, reservation_id: str) -> list[dict[str, Any]]:
        history = body_of(self.client.get(f"/v1/reservations/{reservation_id}/history"))
        return list(history["events"])

    def page(self, **filters: str | int) -> dict[str, Any]:
        return body_of(self.client.get("/v1/reservations", params={"sku_id": self.sku_id, **filters}))

    def counts(self) -> tuple[int, int, int, int]:
        """Available, held, sold and total, which add up."""
        pool = body_of(self.available())
        assert pool["available"] + pool["held"] + pool["sold"] == pool["total_units"]
        return pool["available"], pool["held"], pool["sold"], pool["total_units"]


def wrong_fields(response: httpx.Response) -> dict[str, str]:
    """What a 422 says about each field."""
    errors = problem_of(response, 422, "invalid_request")["errors"]
    assert all(error.keys() == {"field", "message"} for error in errors)
    return {error["field"]: error["message"] for error in errors}


def body_of(response: httpx.Response) -> dict[str, Any]:
    """The body of a success."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/json"
    assert response.headers["x-request-id"]
    body: dict[str, Any] = response.json()
    return body


def problem_of(response: httpx.Response, status: int, reason: str | None = None) -> dict[str, Any]:
    """The body of a refusal, which says why in the one form there is."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["x-request-id"]
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["type"] == f"urn:holdfast:{body['reason']}"
    assert re.fullmatch(r"[a-z][a-z0-9_]*", body["reason"])
    assert body["title"]
    assert isinstance(body["retryable"], bool)
    assert body["detail"]
    assert reason in (None, body["reason"]), body
    if status in (429, 503):
        assert int(response.headers["retry-after"]) >= 1
    return body


def moment(text: str) -> datetime:
    assert RFC3339_UTC_MS.match(text), text
    return datetime.fromisoformat(text)


def seconds_between(earlier: str, later: str) -> float:
    return (moment(later) - moment(earlier)).total_seconds()


def eventually(look: Callable[[], T], *, within_s: float = 60.0) -> T:
    """Look until there is something to see, and give it."""
    deadline = time.monotonic() + within_s
    while not (seen := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing to see within {within_s} s; last look: {seen!r}")
        time.sleep(0.02)
    return seen


def promised(look: Callable[[], T], *, within_s: float) -> T:
    """For what is promised within seconds: those in which the machine is busy do not count."""
    quiet = QuietTime()
    seen = eventually(look, within_s=60.0 + within_s)
    assert quiet.seconds < within_s
    return seen
