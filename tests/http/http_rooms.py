"""Standing in line over HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
from http_calling import eventually
from http_sales import Store, body_of
from http_tokens import buyer_token


@dataclass
class Person:
    client: httpx.Client
    store: Store
    ticket: str = ""

    def join(self, **given: object) -> httpx.Response:
        answer = self.client.post(f"{self.store.path}/queue", json=given)
        if answer.is_success:
            self.ticket = answer.json()["ticket"]
        return answer

    def status(self, ticket: str | None = None) -> httpx.Response:
        return self.client.get(f"{self.store.path}/queue/status", headers=self._with(ticket))

    def ask(self, ticket: str | None = None) -> httpx.Response:
        return self.client.post(f"{self.store.path}/admission", headers=self._with(ticket))

    def leave(self, ticket: str | None = None) -> httpx.Response:
        return self.client.delete(f"{self.store.path}/queue", headers=self._with(ticket))

    def _with(self, ticket: str | None) -> dict[str, str]:
        return {"Holdfast-Ticket": self.ticket if ticket is None else ticket}

    def await_pass(self, within_s: float = 60.0) -> str:
        """Asks until it is their turn."""

        def admitted() -> str:
            answer = self.ask()
            return str(answer.json()["pass"]) if answer.status_code == 200 else ""

        return eventually(admitted, within_s=within_s)

    def buy(self, given: str | None, *, key: str | None = None, **more: object) -> httpx.Response:
        headers = {"Idempotency-Key": key or uuid4().hex} | ({} if given is None else {"Holdfast-Pass": given})
        return self.client.post(f"{self.store.path}/purchase", json={"quantity": 1} | more, headers=headers)


@contextmanager
def person(store: Store, buyer_id: str = "ada", **claims: object) -> Iterator[Person]:
    with store.server.connect(buyer_token(buyer_id, **claims)) as client:
        yield Person(client, store)


def now_of(store: Store) -> dict[str, Any]:
    return body_of(store.now())
