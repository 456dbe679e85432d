"""The click stream: what it says, that it delays nobody, and that it can be lost without harm."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pyarrow.dataset
import pytest

from holdfast.runtime import metrics
from holdfast.streams.clicks import recorder as recorder_module
from holdfast.streams.clicks.click import Click, Naming
from holdfast.streams.clicks.erasing import erase_clicks
from holdfast.streams.clicks.funnel import read_funnel
from holdfast.streams.clicks.parquet_sink import ParquetSink
from holdfast.streams.clicks.recorder import POLLS_PER_SAMPLE, ClickRecorder, Sink

AT = 1_700_000_000.0
REFUSED = b'{"type":"urn:holdfast:sold_out","reason":"sold_out","status":409}'
QUERIES = Path(__file__).parents[2] / "deploy" / "clickhouse"


class Kept:
    def __init__(self) -> None:
        self.clicks: list[Click] = []

    def write(self, clicks: Sequence[Click]) -> None:
        self.clicks += clicks

    def close(self) -> None: ...


class Broken(Kept):
    def write(self, clicks: Sequence[Click]) -> None:
        raise OSError("no space")


def recorder_of(*sinks: Sink, at: float = AT) -> ClickRecorder:
    sales = {"sku": "drop"}
    naming = Naming(b"key" * 20, lambda sale_id: sale_id in sales.values(), sales.get)
    return ClickRecorder(sinks, naming, lambda: at)


def reservation_of(sku_id: str) -> str:
    return f"rsv_{'0' * 32}_{sku_id}"


def walk(recorder: ClickRecorder) -> None:
    """Three come; one leaves the line, one is refused, one pays."""
    for buyer in ("ada", "bob", "cy"):
        recorder.note("storefront", ["drop"], None, 200, b"")
        recorder.note("join", ["drop"], buyer, 200, b"{}")
    recorder.note("leave", ["drop"], "ada", 204, b"")
    recorder.note("admission", ["drop"], "bob", 202, b"{}")
    for buyer in ("bob", "cy"):
        recorder.note("admission", ["drop"], buyer, 200, b"{}")
    recorder.note("purchase", ["drop"], "bob", 409, REFUSED)
    recorder.note("purchase", ["drop"], "cy", 201, b"{}")
    recorder.note("confirm", [reservation_of("sku")], "cy", 202, b"{}")
    recorder.note("confirm", [reservation_of("other")], "cy", 202, b"{}")
    recorder.note("list_orders", [], "cy", 200, b"[]")


def test_clicks_name_steps_and_reasons_and_no_buyer() -> None:
    kept = Kept()
    recorder = recorder_of(kept)
    walk(recorder)
    recorder.flush()
    assert [click.kind for click in kept.clicks] == [
        *["view", "join"] * 3, "leave", "poll", "pass", "pass", "refusal", "attempt", "pay",
    ]  # fmt: skip
    assert {click.sale_id for click in kept.clicks} == {"drop"}
    refused = next(click for click in kept.clicks if click.kind == "refusal")
    assert (refused.step, refused.reason, refused.status) == ("attempt", "sold_out", 409)
    assert len({click.visitor for click in kept.clicks if click.visitor}) == 3
    assert not {"ada", "bob", "cy"} & {click.visitor for click in kept.clicks}


def test_polls_are_sampled() -> None:
    kept = Kept()
    recorder = recorder_of(kept)
    for _ in range(3 * POLLS_PER_SAMPLE):
        recorder.note("now", ["drop"], None, 200, b"{}")
    recorder.flush()
    assert len(kept.clicks) == 3


def test_what_does_not_fit_is_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "WAITING_MAX", 10)
    dropped = metrics.CLICKS.labels("dropped")._value.get()
    kept = Kept()
    recorder = recorder_of(Broken(), kept)
    for _ in range(15):
        recorder.note("join", ["drop"], "ada", 200, b"")
    recorder.flush()
    assert len(kept.clicks) == 10
    assert metrics.CLICKS.labels("dropped")._value.get() == dropped + 5 + 10


def test_made_up_sales_and_reservations_are_not_recorded() -> None:
    kept = Kept()
    recorder = recorder_of(kept)
    for made_up in ("nowhere", "x" * 300, "../drop", reservation_of("y" * 300)):
        recorder.note("get_sale", [made_up], None, 404, b"{}")
    recorder.note("get_sale", ["drop"], None, 200, b"{}")
    assert len(recorder._waiting) == 1
    recorder.flush()
    assert [click.sale_id for click in kept.clicks] == ["drop"]


def test_a_click_that_cannot_be_named_is_dropped_and_recording_goes_on() -> None:
    dropped = metrics.CLICKS.labels("dropped")._value.get()
    kept = Kept()
    recorder = recorder_of(kept)
    recorder.note("join", ["drop"], "\ud800", 200, b"")
    recorder.flush()
    assert metrics.CLICKS.labels("dropped")._value.get() == dropped + 1
    recorder.note("join", ["drop"], "ada", 200, b"")
    recorder.flush()
    assert len(kept.clicks) == 1


def test_nobody_waits_for_a_sink_that_hangs() -> None:
    hangs, release = Event(), Event()

    class Hanging(Kept):
        def write(self, clicks: Sequence[Click]) -> None:
            hangs.set()
            release.wait(30)

    recorder = recorder_of(Hanging())
    recorder.note("join", ["drop"], "ada", 200, b"{}")
    Thread(target=recorder.flush, daemon=True).start()
    assert hangs.wait(30)
    began = time.process_time()
    for _ in range(10_000):
        recorder.note("purchase", ["drop"], "ada", 409, REFUSED)
    per_click_us = (time.process_time() - began) * 100
    release.set()
    print(f"{per_click_us:.2f} µs for each click")
    assert per_click_us < 50


def test_parquet_files_by_sale_and_hour_give_the_funnel(tmp_path: Path) -> None:
    recorder = recorder_of(ParquetSink(str(tmp_path)))
    walk(recorder)
    recorder.flush()
    walk(recorder)
    recorder.flush()
    assert len(list((tmp_path / "sale_id=drop" / "hour=2023-11-14T22").glob("*.parquet"))) == 2
    funnel = read_funnel(tmp_path, "drop")
    people = {step.step: (step.clicks, step.people, step.stopped) for step in funnel.steps}
    assert people == {"view": (6, 3, 0), "join": (6, 3, 1), "pass": (4, 2, 0), "attempt": (4, 2, 1), "pay": (2, 1, 1)}
    [refused] = funnel.refusals
    assert (refused.step, refused.reason, refused.clicks, refused.people) == ("attempt", "sold_out", 2, 1)
    assert read_funnel(tmp_path, "other").refusals == []
    table = pyarrow.dataset.dataset(str(tmp_path), partitioning="hive").to_table()
    assert {"sale_id", "hour", "kind"} <= set(table.column_names)


def test_an_erased_buyer_is_no_visitor_of_any_click(tmp_path: Path) -> None:
    recorder = recorder_of(ParquetSink(str(tmp_path)))
    walk(recorder)
    recorder.flush()
    key, clicks = b"key" * 20, read_funnel(tmp_path, "drop")
    assert erase_clicks(tmp_path, key, "ada", trial=True) == erase_clicks(tmp_path, key, "ada") > 0
    assert erase_clicks(tmp_path, key, "ada") == 0
    assert erase_clicks(tmp_path, key, "bob", trial=True) > 0
    left = read_funnel(tmp_path, "drop")
    assert [step.clicks for step in left.steps] == [step.clicks for step in clicks.steps]


@pytest.mark.slow
def test_clickhouse_loads_the_files_and_answers_the_same(tmp_path: Path) -> None:
    from chdb.session import Session

    # Rows older than 90 days would be gone at once.
    at = time.time() // 60 * 60
    recorder = recorder_of(ParquetSink(str(tmp_path / "clicks")), at=at)
    walk(recorder)
    recorder.flush()
    session: Any = Session(str(tmp_path / "chdb"))  # type: ignore[no-untyped-call]
    try:
        session.query("CREATE DATABASE IF NOT EXISTS shop ENGINE = Atomic; USE shop;")
        session.query((QUERIES / "clicks.sql").read_text())
        files = tmp_path / "clicks" / "sale_id=*" / "hour=*" / "*.parquet"
        session.query((QUERIES / "parquet.sql").read_text().replace("{files}", str(files)))

        def ask(name: str) -> list[str]:
            query = (QUERIES / "queries" / f"{name}.sql").read_text().replace("{sale:String}", "'drop'")
            return str(session.query(query, "CSV")).splitlines()

        assert ask("funnel") == ['"view",3', '"join",3', '"pass",2', '"attempt",2', '"pay",1']
        assert ask("refusals") == ['"attempt","sold_out",1,1']
        minute = f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:00}"
        assert ask("per_minute") == [f'"{minute}",3,3,100,2,1,1,1']
    finally:
        session.close()
