"""`holdfast sales`, on each engine."""

from pathlib import Path

import pytest
from cli_running import Cli, Here

pytest_plugins = ("cli_fixtures",)

DROP = ["drop", "--units", "5", "--price", "4999", "--currency", "EUR", "--payment", "wallet"]


@pytest.fixture
def cli(tmp_path: Path, database_url: str) -> Cli:
    return Cli(tmp_path, {"DATABASE_URL": database_url})


def test_a_sale_is_created_paused_resumed_restocked_and_closed(cli: Cli, here: Here, database_url: str) -> None:
    made = cli("sales", "create", *DROP, "--name", "Drop", "--json").json
    assert (made["sale_id"], made["sku_id"], made["state"], made["phase"]) == ("drop", "drop", "ready", "open")
    for action, phase in (("pause", "paused"), ("resume", "open")):
        assert here("sales", action, "drop", "--json", DATABASE_URL=database_url).json["phase"] == phase
    more = here("sales", "restock", "drop", "--units", "2", "--json", DATABASE_URL=database_url).json
    assert (more["available"], more["total_units"]) == (7, 7)
    too_many = here("sales", "restock", "drop", "--units", "-8", DATABASE_URL=database_url)
    assert (too_many.code, "only 7 units are available" in too_many.err) == (1, True)
    assert here("sales", "show", "drop", "--json", DATABASE_URL=database_url).json["available"] == 7
    heading, row = here("sales", "list", DATABASE_URL=database_url).lines
    assert heading.split()[:4] == ["sale", "id", "sku", "id"]
    assert row.split()[:3] == ["drop", "drop", "open"]
    assert here("sales", "close", "drop", "--json", DATABASE_URL=database_url).json["phase"] == "ended"
    assert [sale["sale_id"] for sale in here("sales", "list", "--json", DATABASE_URL=database_url).json["data"]] == [
        "drop"
    ]


def test_a_sale_is_created_with_a_waiting_room_and_proof_of_work(here: Here) -> None:
    room = ["--room", "fifo", "--rate", "50", "--pass-seconds", "60", "--proof-of-work"]
    made = here("sales", "create", *DROP, *room, "--json").json
    assert made["room"] == {"mode": "fifo", "rate_per_second": 50, "pass_seconds": 60, "beacon": None}
    assert made["proof_of_work"] == {"cost": 200}
    refused = here("sales", "create", "other", *DROP[1:], "--rate", "50")
    assert (refused.code, "--room fifo" in refused.err) == (2, True)


def test_a_sale_is_shown_with_its_rules_and_the_state_of_its_room(here: Here) -> None:
    assert here("sales", "create", *DROP, "--room", "fifo", "--rate", "50", "--proof-of-work").code == 0
    shown = here("sales", "show", "drop").out
    assert "wallet, cart, held for 300 s" in shown
    assert "1 per buyer, proof of work" in shown
    assert "50/s, each with 300 s to buy" in shown
    assert "0 waiting, 0 called, 0 joined" in shown


def test_a_room_is_slowed_down_paused_and_resumed(here: Here) -> None:
    assert here("sales", "create", *DROP, "--room", "fifo", "--rate", "50").code == 0
    slower = here("sales", "room", "drop", "--rate", "20", "--json").json
    assert (slower["rate_per_second"], slower["paused"]) == (20, False)
    assert "20/s (the sale says 50/s)" in here("sales", "room", "drop", "--pause").out
    assert "fifo, paused: nobody is called" in here("sales", "show", "drop").out
    assert here("sales", "room", "drop", "--resume", "--json").json["paused"] is False


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["drop", "--pause", "--resume"], 2, "exclude each other"),
        (["nothing"], 1, "no sale with this ID"),
        (["drop"], 1, "has no waiting room"),
    ],
)
def test_what_cannot_be_done_to_a_room_is_refused(here: Here, words: list[str], code: int, said: str) -> None:
    assert here("sales", "create", *DROP).code == 0
    refused = here("sales", "room", *words)
    assert (refused.code, said in refused.err) == (code, True)


def test_a_drop_is_created_filled_shown_and_listed(here: Here) -> None:
    made = here("drops", "create", "winter", "--per-buyer-limit", "2", "--room", "fifo", "--json").json
    assert (made["per_buyer_limit"], made["room"]["mode"], made["sales"]) == (2, "fifo", [])
    sale = here("sales", "create", *DROP, "--drop", "winter", "--json").json
    assert (sale["drop_id"], sale["room"]["mode"]) == ("winter", "fifo")
    shown = here("drops", "show", "winter").lines
    assert (shown[1].split()[0], shown[-1].split()[:2]) == ("winter", ["drop", "drop"])
    [listed] = here("drops", "list", "--json").json["data"]
    assert [one["sale_id"] for one in listed["sales"]] == ["drop"]
    missing = here("drops", "show", "nope")
    assert (missing.code, "no drop with this ID" in missing.err) == (1, True)


def test_an_existing_sale_is_never_created_again(here: Here) -> None:
    assert here("sales", "create", *DROP).code == 0
    again = here("sales", "create", *DROP)  # With another start time.
    assert (again.code, "already" in again.err, "--if-missing" in again.err) == (1, True, True)
    left = here("sales", "create", *DROP, "--if-missing", "--json")
    assert (left.code, left.json["total_units"], "was not changed" in left.err) == (0, 5, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["sales", "show", "nothing"], 1, "no sale with this ID"),
        (["sales", "pause", "nothing"], 1, "no sale with this ID"),
        (["sales", "show", "a b"], 2, "not a valid sale ID"),
        (["sales", "create", *DROP[:-3], "eur", "--payment", "wallet"], 2, "three capital letters"),
        (["sales", "create", *DROP, "--starts-at", "soon"], 2, "must be a time"),
        (["sales", "create", *DROP, "--ends-at", "2020-01-01T00:00:00Z"], 1, "must be after starts_at"),
        (["sales", "create", *DROP[:-1], "stripe"], 1, "HOLDFAST_STRIPE_API_KEY"),
    ],
)
def test_wrong_use_is_explained_in_one_line(here: Here, words: list[str], code: int, said: str) -> None:
    answer = here(*words)
    assert (answer.code, answer.out) == (code, "")
    assert said in answer.err
    assert "Traceback" not in answer.err
