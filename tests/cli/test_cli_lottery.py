"""`holdfast lottery verify`: buyers recompute their place from what is public."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cli_running import Here, Ran
from joserfc import jwt
from joserfc.jwk import OctKey

from holdfast.domain.room.lottery import Draw, Order, beacon_of, digest_of, entry_of, seed_hash

pytest_plugins = ("cli_fixtures",)

SEED = bytes(range(32))
ENTRIES = [entry_of("drop-1", f"buyer-{number}", f"ticket-{number}") for number in range(40)]
DRAW = Draw("drop-1", SEED, len(ENTRIES), digest_of(ENTRIES), beacon_of(digest_of(ENTRIES)))
LOTTERY = {
    "seed_hash": seed_hash(SEED),
    "seed": SEED.hex(),
    "entrants": DRAW.entrants,
    "digest": DRAW.digest,
    "beacon": DRAW.beacon,
}
POSITION = Order(DRAW).place_of(7) + 1


@pytest.fixture
def now(tmp_path: Path) -> Path:
    return write_now(tmp_path, LOTTERY)


def write_now(directory: Path, lottery: dict[str, Any]) -> Path:
    path = directory / "now.json"
    path.write_text(json.dumps({"sale_id": "drop-1", "state": "open", "serving": 3, "lottery": lottery}))
    return path


def ticket(**changed: Any) -> str:
    claims = {
        "sale": "drop-1",
        "sub": "buyer-7",
        "jti": "ticket-7",
        "arrival": 9,
        "entry": 7,
        "position": POSITION,
        "seed_hash": seed_hash(SEED),
    }
    return jwt.encode({"alg": "HS256"}, claims | changed, OctKey.import_key("a secret of at least 32 bytes, for us"))


def names_of_wrong(ran: Ran) -> list[str]:
    return [check["name"] for check in ran.json["checks"] if not check["ok"]]


@contextmanager
def served(directory: Path, busy_at_first: int = 0) -> Iterator[str]:
    """`busy_at_first`: how often it refuses before it answers."""
    refusals = iter(range(busy_at_first))

    class Quiet(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if next(refusals, None) is None:
                super().do_GET()
                return
            self.send_response(503)
            self.send_header("Retry-After", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(directory))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_ticket_and_the_list_are_confirmed(here: Here, now: Path, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("\n".join([*ENTRIES, ""]))
    (tmp_path / "ticket.jwt").write_text(ticket() + "\n")
    ran = here("lottery", "verify", str(now), "--ticket", "ticket.jwt", "--entries", "list.txt", "--json")
    assert ran.code == 0
    assert (ran.json["ok"], ran.json["position"], names_of_wrong(ran)) == (True, POSITION, [])
    names = {"seed", "digest", "entry", "position", "commitment", "beacon"}
    assert {check["name"] for check in ran.json["checks"]} >= names
    shown = here("lottery", "verify", str(now), "--ticket", ticket())
    assert shown.code == 0
    assert shown.lines[-1] == f"Entry number 7 has position {POSITION} in drop-1."


@pytest.mark.parametrize(
    ("changed", "wrong"),
    [({"position": POSITION + 1}, "position"), ({"seed_hash": "0" * 64}, "commitment"), ({"sale": "drop-2"}, "sale")],
)
def test_a_wrong_ticket_is_found(here: Here, now: Path, changed: dict[str, Any], wrong: str) -> None:
    ran = here("lottery", "verify", str(now), "--ticket", ticket(**changed), "--json")
    assert (ran.code, names_of_wrong(ran)) == (1, [wrong])


def test_a_seed_that_breaks_its_commitment_is_found(here: Here, tmp_path: Path) -> None:
    now = write_now(tmp_path, LOTTERY | {"seed": bytes(32).hex()})
    assert names_of_wrong(here("lottery", "verify", str(now), "--arrival", "7", "--json")) == ["seed"]
    assert "WRONG seed" in here("lottery", "verify", str(now), "--arrival", "7").out


def test_a_beacon_that_does_not_follow_from_the_list_is_found(here: Here, tmp_path: Path) -> None:
    beacon = beacon_of(DRAW.digest, "chosen by us")
    now = write_now(tmp_path, LOTTERY | {"beacon": beacon})
    assert names_of_wrong(here("lottery", "verify", str(now), "--arrival", "7", "--json")) == ["beacon"]
    now = write_now(tmp_path, LOTTERY | {"beacon": beacon, "beacon_source": "ours", "beacon_value": "chosen by us"})
    wrong = names_of_wrong(here("lottery", "verify", str(now), "--ticket", ticket(position=None), "--json"))
    assert wrong == ["beacon_source"]


def test_a_position_is_computed_from_a_url_and_an_arrival_number(here: Here, now: Path) -> None:
    with served(now.parent) as url:
        ran = here("lottery", "verify", f"{url}/now.json", "--arrival", "7", "--position", str(POSITION), "--json")
        assert (ran.code, ran.json["position"]) == (0, POSITION)
        missing = here("lottery", "verify", f"{url}/nothing", "--arrival", "7")
    assert (missing.code, missing.out) == (2, "")
    assert "cannot be read" in missing.err


def test_a_busy_server_is_asked_again(here: Here, now: Path) -> None:
    (now.parent / "list.txt").write_text("\n".join([*ENTRIES, ""]))
    with served(now.parent, busy_at_first=2) as url:
        ran = here("lottery", "verify", str(now), "--arrival", "7", "--entries", f"{url}/list.txt", "--json")
    assert (ran.code, ran.json["position"]) == (0, POSITION)


def test_there_is_nothing_to_verify_before_opening(here: Here, tmp_path: Path) -> None:
    now = write_now(tmp_path, {"seed_hash": seed_hash(SEED)})
    ran = here("lottery", "verify", str(now), "--ticket", ticket(position=None))
    assert (ran.code, ran.out) == (2, "")
    assert "not published yet" in ran.err


def test_a_missing_file_is_named_once(here: Here) -> None:
    ran = here("lottery", "verify", "no-such-file.json", "--arrival", "7")
    assert (ran.code, ran.err) == (2, "holdfast: no-such-file.json cannot be read: No such file or directory\n")


@pytest.mark.parametrize(
    ("lottery", "options"),
    [
        (LOTTERY, []),
        (LOTTERY, ["--arrival", "7", "--ticket", ticket()]),
        (LOTTERY, ["--arrival", "-1"]),
        (LOTTERY, ["--ticket", "no-such-file"]),
        (LOTTERY, ["--ticket", "a.b.c"]),
        (LOTTERY, ["--ticket", ticket(arrival="7")]),
        (LOTTERY, ["--arrival", "7", "--entries", "no-such-file"]),
        (LOTTERY | {"seed": "00"}, ["--arrival", "7"]),
        (LOTTERY | {"entrants": -1}, ["--arrival", "7"]),
        ({}, ["--arrival", "7"]),
    ],
)
def test_wrong_use_exits_with_2(here: Here, tmp_path: Path, lottery: dict[str, Any], options: list[str]) -> None:
    ran = here("lottery", "verify", str(write_now(tmp_path, lottery)), *options, "--json")
    assert ran.code == 2
    assert ran.err
    # Parser errors are text only.
    assert not ran.out or ran.refusal
