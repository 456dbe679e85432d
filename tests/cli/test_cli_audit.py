"""`holdfast audit` without a server; more is in tests/http/test_http_audit.py."""

import time
from pathlib import Path

import pytest
from cli_running import Here

from holdfast.audit.recorder import Recorder
from holdfast.domain.stock.command import Verdict
from holdfast.domain.stock.outcome import Outcome

pytest_plugins = ("cli_fixtures",)


def refuse(directory: Path, owner_id: str) -> None:
    recorder = Recorder(directory)
    recorder.start()
    recorder.note(Verdict(Outcome.PAUSED), "demo", owner_id, 1, "r1", "drop")
    recorder.stop()


def test_a_query_without_a_database_creates_none(here: Here, tmp_path: Path) -> None:
    ran = here("audit", "--buyer", "ada")
    assert (ran.code, ran.out) == (0, "No records for buyer 'ada'.\n")
    assert not (tmp_path / "data").exists()


def test_a_damaged_segment_is_warned_about_and_the_rest_is_shown(here: Here, tmp_path: Path) -> None:
    assert here("pools", "create", "demo", "--units", "1").code == 0
    audit = tmp_path / "data" / "audit"
    refuse(audit, "ada")
    damaged = audit / f"{int(time.time() * 1000):013}-1-x.parquet"
    damaged.write_bytes(b"PAR1 and then nothing")
    ran = here("audit", "--buyer", "ada", "--sale", "drop", "--json")
    assert ran.code == 0
    assert ran.json["unreadable_segments"] == [damaged.name]
    assert [moment["what"] for moment in ran.json["data"]] == ["refused: the sale was paused"]
    assert damaged.name in ran.err
    assert here("audit", "--buyer", "ada", "--sale", "another", "--json").json["data"] == []


@pytest.mark.parametrize("since", ["2h", "2020-01-01", "2020-01-01T00:00:00+02:00"])
def test_since_accepts_durations_and_timestamps(here: Here, tmp_path: Path, since: str) -> None:
    assert here("pools", "create", "demo", "--units", "1").code == 0
    refuse(tmp_path / "data" / "audit", "ada")
    assert len(here("audit", "--buyer", "ada", "--since", since, "--json").json["data"]) == 1
    assert here("audit", "--buyer", "ada", "--since", "0s", "--json").json["data"] == []
