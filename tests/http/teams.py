"""Operators of a console, each in a window of their own, and the server they work with."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from argon2 import PasswordHasher
from sqlalchemy import Connection, Executable

from asking_inside import NoConnection
from holdfast.access import passwords
from holdfast.bootstrap.services import Services, open_services
from holdfast.http.contract.message import Answer, Request
from holdfast.http.protection.session_cookie import session_in
from holdfast.http.server.app import App
from holdfast.settings import load_settings

PASSWORD = "correct horse battery"
CONSOLE = {"holdfast-console": "1", "sec-fetch-site": "same-origin", "host": "127.0.0.1:8000"}


@dataclass
class Window:
    """A browser window of the console, with its cookies."""

    app: App
    key: str | None = None
    cookies: dict[str, str] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    address: str = "127.0.0.1"

    async def ask(self, method: str, path: str, body: object = None, key: str | None = None) -> Answer:
        parts, sent = urlsplit(path), b"" if body is None else json.dumps(body).encode()
        headers = CONSOLE | {"cookie": "; ".join(f"{n}={v}" for n, v in self.cookies.items())} | self.headers
        connection = NoConnection(list(headers.items()), f"{self.address}:1")
        authorization = f"Bearer {self.key}" if self.key else session_in(method, connection.header)
        request = Request(method, parts.path, parts.query, connection, "req-1", authorization, body=sent)
        request.idempotency_key = key
        answer = await self.app.answer(request)
        assert answer is not None
        for name, value in answer.headers:
            if name == "set-cookie":
                self.cookies |= {cookie: morsel.value for cookie, morsel in SimpleCookie(value).items()}
        return answer

    async def json(self, method: str, path: str, body: object = None, status: int = 200) -> Any:
        answer = await self.ask(method, path, body)
        assert answer.status == status, answer.body
        return json.loads(answer.body) if answer.body else None

    async def refused(self, method: str, path: str, body: object = None) -> str:
        answer = await self.ask(method, path, body)
        assert answer.status >= 400, answer.body
        return str(json.loads(answer.body)["reason"])


@dataclass(frozen=True)
class Team:
    services: Services
    app: App
    # Of the OIDC tests.
    issuer: Any = None

    @property
    def admin(self) -> Window:
        return Window(self.app, self.services.settings.service_key_text())

    async def invited(self, role: str, email: str | None = None, name: str = "Ada") -> tuple[dict[str, Any], str]:
        given = {"email": email or f"{uuid4().hex}@example.com", "name": f"{name} {role}", "role": role}
        invited = await self.admin.json("POST", "/v1/ops/operators", given, 201)
        return invited, invited["link"].rpartition("/")[2]

    async def operator(self, role: str, name: str = "Ada") -> Window:
        _, token = await self.invited(role, name=name)
        window = Window(self.app)
        await window.json("POST", "/v1/console/invitation", {"token": token, "password": PASSWORD})
        return window

    async def execute(self, statement: Executable) -> None:
        await self.services.database.write(partial(_execute, statement=statement))

    async def sale(self, starts_at: str = "2030-01-01T00:00:00Z") -> str:
        sale_id = f"sale-{uuid4().hex[:8]}"
        terms = {"sale_id": sale_id, "sku_id": sale_id, "name": "Lamp", "total_units": 5, "payment": "external"}
        terms |= {"price": {"amount": 100, "currency": "EUR"}, "starts_at": starts_at}
        await self.admin.json("POST", "/v1/sales", terms, 201)
        return sale_id

    async def actions(self, subject: str) -> list[dict[str, Any]]:
        return list((await self.admin.json("GET", f"/v1/ops/actions?subject={subject}"))["data"])


@asynccontextmanager
async def open_team(directory: Path, **settings: Any) -> AsyncIterator[Team]:
    loaded = load_settings(data=directory, buyer_secret="b0ye45ec" * 4, console_url="http://127.0.0.1:8000", **settings)
    async with AsyncExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        # As slow as it has to be, a hash takes longer than everything else here.
        patch.setattr(passwords, "PasswordHasher", partial(PasswordHasher, time_cost=1, memory_cost=8, parallelism=1))
        services = await stack.enter_async_context(open_services(loaded, background=False))
        app = App(services)
        stack.push_async_callback(app.finish)
        yield Team(services, app)


def _execute(connection: Connection, statement: Executable) -> None:
    connection.execute(statement)
