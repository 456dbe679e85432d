"""Refusals are kept whatever happens to the process that recorded them, and found wherever they are by then."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from audit_directory import SOLD_OUT, count, found, record

from holdfast.audit.archivist import DAY_MS, Archivist
from holdfast.audit.erasing import erase_refusals
from holdfast.audit.recorder import Recorder
from holdfast.audit.segments import PARQUET, RAW, archived, raw
from holdfast.runtime import metrics

OWNERS = [
    "ada",
    "Zoë 'quote\" 🎟",
    "'; DROP TABLE found; --",
    "100%_*[x]?",
    "a\\b/c\td",
    "null",
    " ",
    '{"owner_id": "ada"}',
    "🎟" * 50,
]


def dropped() -> float:
    return float(metrics.REFUSALS_DROPPED._value.get())


def archive(directory: Path) -> int:
    return Archivist(directory, 30).pass_once()


def test_a_refusal_is_found_before_and_after_it_is_archived(tmp_path: Path) -> None:
    record(tmp_path, "ada", "bob", "ada", sale_id="drop")
    before = found(tmp_path, "ada")
    assert before.counts == {"sold_out": 2}
    assert [(r.sku_id, r.quantity, r.available, r.sale_id, r.request_id) for r in before.latest] == [
        ("sku", 1, 0, "drop", "r0"),
        ("sku", 1, 0, "drop", "r2"),
    ]
    assert abs(before.latest[0].at_ms - time.time() * 1000) < 10_000
    assert archive(tmp_path) == 1
    assert raw(tmp_path) == []
    assert [path.suffix for path in tmp_path.iterdir()] == [PARQUET]
    assert found(tmp_path, "ada") == before


def test_an_erased_buyer_is_in_no_segment_and_the_others_are_still_found(tmp_path: Path) -> None:
    record(tmp_path, *OWNERS, OWNERS[1])
    archive(tmp_path)
    record(tmp_path, *OWNERS, OWNERS[1])
    for owner_id in OWNERS[:-1]:
        expected = 4 if owner_id == OWNERS[1] else 2
        assert erase_refusals(tmp_path, owner_id, trial=True) == expected
        assert erase_refusals(tmp_path, owner_id) == expected
        assert (erase_refusals(tmp_path, owner_id), count(tmp_path, owner_id)) == (0, 0)
    assert count(tmp_path, OWNERS[-1]) == 2


def test_buyer_ids_may_be_any_text(tmp_path: Path) -> None:
    record(tmp_path, *OWNERS)
    for _ in ("raw", "archived"):
        assert [count(tmp_path, owner_id) for owner_id in OWNERS] == [1] * len(OWNERS)
        assert count(tmp_path, "nobody") == 0
        archive(tmp_path)


def test_a_search_keeps_to_the_sku_and_the_sale(tmp_path: Path) -> None:
    record(tmp_path, "ada", sku_id="one", sale_id="first")
    record(tmp_path, "ada", sku_id="one")
    record(tmp_path, "ada", sku_id="two", sale_id="second")
    assert found(tmp_path, "ada", sku_id="one").counts == {"sold_out": 2}
    assert found(tmp_path, "ada", sku_id="one", sale_id="first").counts == {"sold_out": 2}
    assert found(tmp_path, "ada", sale_id="first").counts == {"sold_out": 1}
    assert found(tmp_path, "ada", sale_id="unknown").counts == {}


def test_a_segment_that_is_being_written_is_left_alone_and_searched(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.start()
    recorder.note(SOLD_OUT, "sku", "ada", 1, "r")
    until = time.monotonic() + 60
    while not count(tmp_path, "ada"):
        if time.monotonic() > until:
            raise TimeoutError
    assert archive(tmp_path) == 0
    assert len(raw(tmp_path)) == 1
    recorder.stop()
    assert archive(tmp_path) == 1
    assert count(tmp_path, "ada") == 1


def test_several_processes_share_a_directory_and_leave_nothing_behind(tmp_path: Path) -> None:
    script = str(Path(__file__).with_name("refuser.py"))
    command = [sys.executable, script, str(tmp_path)]
    with ExitStack() as running:
        processes = [running.enter_context(subprocess.Popen([*command, name, "2000"])) for name in ("one", "two")]
    assert [process.returncode for process in processes] == [0, 0]
    left = len(raw(tmp_path))
    assert left in (1, 2), "each left the segment it was writing when it ended, which the other may have taken up"
    assert [count(tmp_path, name) for name in ("one", "two")] == [2001, 2001]
    assert archive(tmp_path) == left
    assert raw(tmp_path) == []
    assert [count(tmp_path, name) for name in ("one", "two")] == [2001, 2001]


def test_a_crash_between_archiving_and_removing_counts_nothing_twice(tmp_path: Path) -> None:
    record(tmp_path, "ada")
    [segment] = raw(tmp_path)
    lines = segment.read_bytes()
    archive(tmp_path)
    segment.write_bytes(lines)
    assert count(tmp_path, "ada") == 1
    archive(tmp_path)
    assert not segment.exists()
    assert count(tmp_path, "ada") == 1


def test_a_damaged_segment_is_left_out_by_name_and_the_rest_is_found(tmp_path: Path) -> None:
    for _ in range(3):
        record(tmp_path, "ada")
        archive(tmp_path)
    damaged = archived(tmp_path)[1]
    damaged.write_bytes(damaged.read_bytes()[:-40])
    refusals = found(tmp_path, "ada")
    assert refusals.counts == {"sold_out": 2}
    assert refusals.unreadable == [damaged.name]


def test_a_damaged_line_is_left_out_and_the_rest_is_found(tmp_path: Path) -> None:
    record(tmp_path, "ada", "ada")
    [segment] = raw(tmp_path)
    segment.write_bytes(b'\xff\x00\n{"x": 1}\n[1]\n' + segment.read_bytes() + b'{"at_ms":1,"owner_id":"ada","outc')
    assert count(tmp_path, "ada") == 2
    assert archive(tmp_path) == 1
    assert count(tmp_path, "ada") == 2


def test_what_is_older_than_it_is_kept_for_is_forgotten(tmp_path: Path) -> None:
    record(tmp_path, "ada")
    archive(tmp_path)
    [segment] = archived(tmp_path)
    now = int(time.time() * 1000)
    for days in (6, 8):
        (tmp_path / f"{now - days * DAY_MS:013}-1-x{PARQUET}").write_bytes(segment.read_bytes())
        (tmp_path / f"{now - days * DAY_MS:013}-1-x.draft").write_bytes(b"half done")
    (tmp_path / "1-notes.txt").write_text("not ours")
    assert count(tmp_path, "ada") == 3
    Archivist(tmp_path, 7).pass_once()
    assert count(tmp_path, "ada") == 2
    assert len(list(tmp_path.glob("*.draft"))) == 1
    assert (tmp_path / "1-notes.txt").exists()


def test_where_nothing_can_be_written_refusals_are_dropped_and_counted(tmp_path: Path) -> None:
    blocked = tmp_path / "audit"
    blocked.write_text("a file where the directory should be")
    before = dropped()
    record(blocked, "ada", "bob")
    assert dropped() - before == 2
    blocked.unlink()
    record(blocked, "ada")
    assert count(blocked, "ada") == 1


def test_what_a_full_disk_cuts_short_is_taken_back(tmp_path: Path) -> None:
    """In a process of its own, whose files may not grow beyond a limit."""
    script = """
import resource, sys
from contextlib import ExitStack
from pathlib import Path
from holdfast.audit.segments import RawSegment
segment = RawSegment(Path(sys.argv[1]))
segment.append(b"first\\n")
resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
try:
    segment.append(b"second\\n")
except OSError:
    print("refused")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
segment.append(b"third\\n")
"""
    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ran.stdout == "refused\n"
    [segment] = tmp_path.glob(f"*{RAW}")
    assert segment.read_text() == "first\nthird\n"


def test_a_list_that_nobody_empties_stops_growing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.audit.recorder.WAITING_MAX", 3)
    before = dropped()
    recorder = Recorder(tmp_path)
    for _ in range(5):
        recorder.note(SOLD_OUT, "sku", "ada", 1, "r")
    recorder.start()
    recorder.stop()
    assert count(tmp_path, "ada") == 3
    assert dropped() - before == 2


def test_a_directory_that_does_not_exist_has_no_refusals(tmp_path: Path) -> None:
    assert found(tmp_path / "none", "ada").counts == {}
    assert archive(tmp_path / "none") == 0
    assert not os.path.lexists(tmp_path / "none")
