"""Bad quantities, odd text, odd addresses: refused as the caller's mistake, never ours, and nothing is taken."""

import json

import httpx
import pytest
from _pytest.mark import ParameterSet
from http_calling import Shop, body_of, problem_of, wrong_fields
from http_serving import Server, on_one_engine
from http_sockets import wire_to

pytest_plugins = ("http_fixtures",)

BAD_NUMBERS = {
    "text": '"1"',
    "float": "1.0",
    "exponent": "1e0",
    "fraction": "1.5",
    "true": "true",
    "false": "false",
    "negative": "-1",
    "2^63": str(2**63),
    "2^64": str(2**64),
    "-2^63-1": str(-(2**63) - 1),
    "four hundred digits": "9" * 400,
    "infinite float": "1e999",
    "unicode digit": '"１"',  # noqa: RUF001 - the point of the test
    "arabic digit": '"٣"',
    "null": "null",
    "list": "[1]",
    "nested": '{"value": 1}',
    "empty text": '""',
}
# These are not JSON whatever some parsers think, or more than any parser takes.
NOT_JSON = {
    "unquoted unicode digit": "１",  # noqa: RUF001 - the point of the test
    "NaN": "NaN",
    "Infinity": "Infinity",
    "octal": "01",
    "hex": "0x1",
    "plus": "+1",
    "five thousand digits": "9" * 5000,
}


def _named(values: dict[str, str]) -> list[ParameterSet]:
    return [pytest.param(value, id=name) for name, value in values.items()]


def _of_fields(values: dict[str, str], *, required: str, optional: str) -> list[ParameterSet]:
    """Each field with each value, except that what is optional may be spelled out as null."""
    cases = [(field, name, value) for field in (required, optional) for name, value in values.items()]
    return [
        pytest.param(field, value, id=f"{field}-{name}")
        for field, name, value in cases
        if (field, value) != (optional, "null")
    ]


@on_one_engine
@pytest.mark.parametrize(
    ("field", "number"), _of_fields(BAD_NUMBERS | {"zero": "0"}, required="quantity", optional="min_quantity")
)
def test_a_quantity_is_a_json_integer_from_one_to_the_maximum(shop: Shop, field: str, number: str) -> None:
    shop.provision(5)
    fields = {"owner_id": '"ada"', "quantity": "1"} | {field: number}
    body = "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}"
    problem = problem_of(shop.client.post(f"{shop.path}/reserve", content=body), 422, "invalid_request")
    assert field in str(problem)
    assert shop.counts() == (5, 0, 0, 5)


@on_one_engine
@pytest.mark.parametrize("number", _named(BAD_NUMBERS))
def test_a_total_is_a_json_integer_too(shop: Shop, number: str) -> None:
    shop.provision(5)
    answer = shop.client.put(shop.path, content=f'{{"total_units": {number}}}')
    problem_of(answer, 422, "invalid_request")
    assert shop.counts() == (5, 0, 0, 5)


@on_one_engine
@pytest.mark.parametrize("number", _named(NOT_JSON))
def test_a_number_that_is_not_json_is_refused(shop: Shop, number: str) -> None:
    shop.provision(5)
    bodies = {
        shop.client.put(shop.path, content=f'{{"total_units": {number}}}'),
        shop.client.post(f"{shop.path}/reserve", content=f'{{"owner_id": "ada", "quantity": {number}}}'),
    }
    for answer in bodies:
        assert answer.status_code in (400, 422)
        problem_of(answer, answer.status_code)
    assert shop.counts() == (5, 0, 0, 5)


@on_one_engine
@pytest.mark.parametrize("missing", ["owner_id", "quantity"])
def test_a_missing_field_is_refused_by_name(shop: Shop, missing: str) -> None:
    shop.provision(5)
    wish = {"owner_id": "ada", "quantity": 1}
    del wish[missing]
    assert wrong_fields(shop.client.post(f"{shop.path}/reserve", json=wish)) == {missing: "is required"}


@on_one_engine
def test_every_route_names_what_is_wrong_by_its_bare_name_and_in_the_words_of_json(shop: Shop) -> None:
    shop.provision(5)
    reserve, extend = f"{shop.path}/reserve", f"/v1/reservations/{shop.hold()}/extend"
    told = [
        wrong_fields(shop.client.post(reserve, content=b"[]")),
        wrong_fields(shop.client.put(shop.path, content=b"[]")),
        wrong_fields(shop.reserve(colour="red")),
        wrong_fields(shop.provision(5, colour="red")),
        wrong_fields(shop.reserve(quantity="1")),  # type: ignore[arg-type]
        wrong_fields(shop.reserve(owner_id=None)),  # type: ignore[arg-type]
        wrong_fields(shop.reserve(min_quantity="1")),
        wrong_fields(shop.client.post(extend, json={})),
        wrong_fields(shop.client.post(extend, json={"ttl_seconds": "1"})),
        wrong_fields(shop.client.put("/v1/inventory/-", json={"total_units": 1})),
        wrong_fields(shop.client.get("/v1/reservations?limit=x")),
    ]
    assert told == [
        {"body": "must be an object, not an array"},
        {"body": "must be an object, not an array"},
        {"colour": "unknown field"},
        {"colour": "unknown field"},
        {"quantity": "must be an integer, not a string"},
        {"owner_id": "must be a string, not null"},
        {"min_quantity": "must be an integer or null, not a string"},
        {"ttl_seconds": "is required"},
        {"ttl_seconds": "must be an integer, not a string"},
        {"sku_id": "must be letters, digits and . _ : ~ -, at most 100, a letter or digit first"},
        {"limit": "must be an integer, not a string"},
    ]


ODD_TEXTS = {
    "empty": '""',
    "NUL": '"a\\u0000b"',
    "newline": '"a\\nb"',
    "escape": '"\\u001b[31m"',
    "delete": '"\\u007f"',
    "number": "1",
    "null": "null",
    "list": '["ada"]',
    "too long": json.dumps("x" * 256),
    "far too long": json.dumps("x" * 10_000),
}
NOT_TEXT = {"lone high surrogate": '"\\ud800"', "lone low surrogate": '"a\\udc00b"', "raw control": '"a\x01b"'}


@on_one_engine
@pytest.mark.parametrize(("field", "text"), _of_fields(ODD_TEXTS, required="owner_id", optional="idempotency_key"))
def test_an_id_is_printable_text_of_reasonable_length(shop: Shop, field: str, text: str) -> None:
    shop.provision(5)
    fields = {"owner_id": '"ada"', "quantity": "1"} | {field: text}
    body = "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}"
    problem_of(shop.client.post(f"{shop.path}/reserve", content=body.encode()), 422, "invalid_request")
    assert shop.counts() == (5, 0, 0, 5)


@on_one_engine
@pytest.mark.parametrize("text", _named(NOT_TEXT))
def test_text_that_is_no_unicode_is_refused_wherever_it_stands(shop: Shop, text: str) -> None:
    shop.provision(5)
    reserve, put, extend = f"{shop.path}/reserve", shop.path, f"/v1/reservations/{shop.hold()}/extend"
    answers = [
        shop.client.post(reserve, content=f'{{"owner_id": {text}, "quantity": 1}}'),
        shop.client.post(reserve, content=f'{{{text}: 1, "owner_id": "ada", "quantity": 1}}'),
        shop.client.put(put, content=f'{{"total_units": {text}}}'),
        shop.client.put(put, content=f'{{{text}: 1, "total_units": 1}}'),
        shop.client.post(extend, content=f"{{{text}: {text}}}"),
    ]
    for answer in answers:
        assert answer.status_code in (400, 422)
        problem_of(answer, answer.status_code)
    assert shop.counts() == (4, 1, 0, 5)


def test_an_owner_id_of_200_characters_is_the_longest(shop: Shop) -> None:
    shop.provision(5)
    body_of(shop.reserve("é" * 200))
    problem_of(shop.reserve("é" * 201), 422, "invalid_request")


@on_one_engine
@pytest.mark.parametrize("opening", ["[", '{"a":', '{"quantity":[', '[{"a":'])
def test_json_that_is_too_deep_is_refused(shop: Shop, opening: str) -> None:
    deep = (opening * (16_000 // len(opening))).encode()
    for method, path in (("PUT", shop.path), ("POST", f"{shop.path}/reserve"), ("POST", "/v1/reservations/r/extend")):
        answer = shop.client.request(method, path, content=deep)
        assert answer.status_code in (400, 422), answer.text
        problem_of(answer, answer.status_code)


def test_a_field_given_twice_is_never_counted_twice(shop: Shop) -> None:
    shop.provision(5)
    body = b'{"owner_id": "ada", "quantity": 1, "quantity": 2, "owner_id": "bob"}'
    answer = shop.client.post(f"{shop.path}/reserve", content=body)
    assert answer.status_code in (200, 400, 422)
    assert shop.counts() in {(5, 0, 0, 5), (3, 2, 0, 5), (4, 1, 0, 5)}


@on_one_engine
@pytest.mark.parametrize(
    "sku_id",
    ["a%2Fb", "%2e%2e", "a%00b", "a%0A", "%20", "a b", "%C3%A9", "%FF", "%ED%A0%80", "-a", "x" * 101, "%25", "%3Cb%3E"],
)  # fmt: skip
def test_a_sku_id_with_odd_characters_never_names_a_pool(shop: Shop, sku_id: str) -> None:
    put = shop.client.put(f"/v1/inventory/{sku_id}", json={"total_units": 1})
    assert put.status_code in (404, 422)
    problem_of(put, put.status_code)
    problem_of(shop.client.get(f"/v1/inventory/{sku_id}/available"), 404)
    reserve = shop.client.post(f"/v1/inventory/{sku_id}/reserve", json={"owner_id": "ada", "quantity": 1})
    problem_of(reserve, 404)


@on_one_engine
@pytest.mark.parametrize(
    "reservation_id", ["%00", "a%0Ab", "%2e%2e", "x" * 201, "x" * 8_000, "%FF", "rsv_%00", "%F0%9F%A6%80"]
)
def test_a_reservation_id_with_odd_characters_never_names_a_reservation(shop: Shop, reservation_id: str) -> None:
    path = f"/v1/reservations/{reservation_id}"
    asked: list[httpx.Response] = [
        shop.client.get(path),
        shop.client.get(f"{path}/history"),
        shop.client.post(f"{path}/confirm"),
        shop.client.post(f"{path}/extend", json={"ttl_seconds": 1}),
        shop.client.delete(path),
    ]
    for answer in asked:
        assert answer.status_code in (404, 414, 422)
        problem_of(answer, answer.status_code)


@pytest.mark.parametrize(
    "target",
    [
        "/../../../etc/passwd", "/v1/inventory/../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/v1/%2e%2e/metrics",
        "//v1/inventory/a/available", "/v1//inventory/a/available", "/v1/inventory//available", "/v1/reservations/",
        "/v1/reservations/%2F", "/v1/inventory/a%2Favailable/x", "/v1/inventory/a/available/", "/metrics/",
        "/V1/INVENTORY/a/AVAILABLE",
    ],
)  # fmt: skip
def test_a_path_that_leads_nowhere_is_not_found_and_sends_nobody_elsewhere(embedded: Server, target: str) -> None:
    """Spoken by hand, because clients tidy paths up before they send them."""
    with wire_to(embedded) as wire:
        wire.send(f"GET {target} HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer x\r\n\r\n".encode())
        answer = wire.read_answer()
    assert answer.status in (401, 404)
    assert answer.headers["content-type"] == "application/problem+json"
