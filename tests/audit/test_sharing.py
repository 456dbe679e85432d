"""One search finds the refusals of every server, each once."""

from functools import partial
from pathlib import Path

from audit_directory import SOLD_OUT

from holdfast.audit.archivist import Archivist
from holdfast.audit.ask import ask
from holdfast.audit.erasing import erase_shared
from holdfast.audit.recorder import Recorder
from holdfast.audit.refusal import NOBODY
from holdfast.audit.search import Question, search
from holdfast.audit.segments import raw
from holdfast.audit.sharing import Sharer, search_shared, share_finished
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.refusal_batches import RefusalBatch, add_batches, find_batches


def machine(directory: Path, *owner_ids: str) -> Recorder:
    """A server that has refused these, and stopped."""
    recorder = Recorder(directory, is_shared=True)
    recorder.start()
    for number, owner_id in enumerate(owner_ids):
        recorder.note(SOLD_OUT, "sku", owner_id, 1, f"r{number}")
    recorder.stop()
    return recorder


async def counts(database: Database, directory: Path, owner_id: str) -> dict[str, int]:
    return (await ask(database, directory, Question(owner_id))).refusals


async def test_any_server_finds_what_others_refused_before_and_after_their_segments_are_finished(
    database: Database, tmp_path: Path
) -> None:
    one, other, nowhere = tmp_path / "one", tmp_path / "other", tmp_path / "nowhere"
    for directory in (one, other):
        await Sharer(database, machine(directory, "ada", "bob", "ada")).pass_once()
    for directory in (one, other, nowhere):
        assert await counts(database, directory, "ada") == {"sold_out": 4}
        assert await counts(database, directory, "bob") == {"sold_out": 2}
    [segment] = raw(one)
    late = await database.read(lambda c: find_batches(c, "ada", None, None, []))
    assert await share_finished(database, segment)
    again = next(batch for batch in late if batch.segment == segment.stem)
    await database.write(
        lambda c: add_batches(c, [RefusalBatch(again.segment, -1, 1, again.first_at, again.last_at, again.lines)])
    )
    for directory in (one, other, nowhere):
        assert await counts(database, directory, "ada") == {"sold_out": 4}, "a row that came late counts once"
    assert await counts(database, nowhere, "cid") == {}


async def test_what_was_not_shared_in_time_is_shared_with_its_finished_segment(
    database: Database, tmp_path: Path
) -> None:
    """The server was killed in the middle of a line, before it shared anything."""
    machine(tmp_path / "one", "ada", "bob")
    [segment] = raw(tmp_path / "one")
    segment.write_bytes(segment.read_bytes() + b'{"at_ms":1,"owner_')
    assert (await search_shared(database, tmp_path / "other", Question("ada"))).counts == {}
    assert await share_finished(database, segment)
    found = await search_shared(database, tmp_path / "other", Question("ada"))
    assert [refusal.owner_id for refusal in found.latest] == ["ada"]


async def test_an_erased_buyer_is_in_nothing_that_was_shared(database: Database, tmp_path: Path) -> None:
    for directory in (tmp_path / "one", tmp_path / "other"):
        await Sharer(database, machine(directory, "ada", "bob", "ada")).pass_once()
    assert await share_finished(database, raw(tmp_path / "one")[0])
    for trial in (True, False):
        assert await database.write(partial(erase_shared, buyer_id="ada", trial=trial)) == 4
    assert await database.write(partial(erase_shared, buyer_id="ada")) == 0
    assert await counts(database, tmp_path / "nowhere", "ada") == {}
    assert await counts(database, tmp_path / "nowhere", "bob") == {"sold_out": 2}


def test_a_segment_that_was_not_shared_is_not_archived(tmp_path: Path) -> None:
    machine(tmp_path, "ada")

    class Unshared(Archivist):
        def _is_shared(self, raw: Path) -> bool:
            return False

    assert Unshared(tmp_path, 30).pass_once() == 0
    assert len(raw(tmp_path)) == 1
    assert Archivist(tmp_path, 30).pass_once() == 1


def test_shed_requests_are_counted_by_reason_and_second_and_not_stored(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.start()
    for _ in range(1_000):
        recorder.count_shed("busy")
    recorder.count_shed("rate_limited")
    recorder.note(SOLD_OUT, "sku", "ada", 1, "r")
    recorder.stop()
    assert search(tmp_path, Question(NOBODY)).counts == {"busy": 1_000, "rate_limited": 1}
    assert sum(len(path.read_bytes().splitlines()) for path in raw(tmp_path)) <= 5, "two seconds at most"
    assert search(tmp_path, Question("ada")).counts == {"sold_out": 1}
