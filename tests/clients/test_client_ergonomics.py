"""What a program meets that has just begun to use the client: its own slips, and what its editor shows."""

import ast
import inspect
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from types import ModuleType
from typing import Any, get_type_hints

import msgspec
import pytest
from scripted_server import GRANTED, problem, scripted

from holdfast.client import (
    AsyncClient,
    Client,
    HoldfastError,
    NoAnswer,
    Options,
    StreamEvent,
    async_operations,
    operations,
    problems,
)
from holdfast.client.conversation import OptionChanges
from holdfast.client.types import Order, Pool

EACH = pytest.mark.parametrize("kind", [Client, AsyncClient])


def test_a_key_that_was_read_from_a_file_may_end_with_a_newline() -> None:
    with scripted(GRANTED) as server, Client(server.url, key="hf_1\n") as client:
        client.reserve("sku", owner_id="ada", quantity=1)
        assert server.received[0][3]["authorization"] == "Bearer hf_1"


@EACH
@pytest.mark.parametrize("key", ["hf_1\nhf_2", "hf_é", "hf_1\x00"])
def test_a_key_that_cannot_be_one_is_refused_at_once_and_not_shown(kind: Callable[..., object], key: str) -> None:
    with pytest.raises(ValueError, match="the key has characters") as refused:
        kind("http://127.0.0.1:8000", key=key)
    assert "hf_" not in str(refused.value)


@EACH
@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://shop.example", ""])
def test_what_is_not_the_url_of_a_server_is_refused_at_once(kind: Callable[..., object], url: str) -> None:
    with pytest.raises(ValueError, match="is not the URL of a server"):
        kind(url)


def test_errors_pass_from_process_to_process() -> None:
    refusal = problem(409, "insufficient_inventory", retryable=False, available=1)
    with scripted(refusal) as server, Client(server.url) as client, pytest.raises(HoldfastError) as refused:
        client.reserve("sku", owner_id="ada", quantity=2)
    arrived = pickle.loads(pickle.dumps(refused.value))
    assert type(arrived) is problems.InsufficientInventory
    assert str(arrived) == str(refused.value)
    assert vars(arrived) == vars(refused.value)
    lost = pickle.loads(pickle.dumps(NoAnswer("no answer", "order-17")))
    assert lost.idempotency_key == "order-17"


def test_options_that_can_be_changed_are_all_there_are() -> None:
    fields = {field.name: field.type for field in msgspec.structs.fields(Options)}
    assert get_type_hints(OptionChanges) == fields


def returned(method: Callable[..., Any]) -> Any:
    return inspect.signature(method).return_annotation


@pytest.mark.parametrize("module", [operations, async_operations])
def test_editors_show_what_each_method_does(module: ModuleType) -> None:
    [methods] = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef)]
    for assigned, text in zip(methods.body[::2], methods.body[1::2], strict=True):
        assert isinstance(assigned, ast.Assign)
        assert isinstance(text, ast.Expr)
        assert isinstance(text.value, ast.Constant)
        assert str(text.value.value).endswith(".")


def test_help_shows_what_a_method_returns() -> None:
    assert returned(Client.available) is returned(AsyncClient.available) is Pool
    assert returned(Client.iter_orders) == Iterator[Order]
    assert returned(AsyncClient.iter_orders) == AsyncIterator[Order]
    assert returned(Client.events) == Iterator[StreamEvent]
    assert returned(AsyncClient.events) == AsyncIterator[StreamEvent]
