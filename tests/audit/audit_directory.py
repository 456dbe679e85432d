"""Refusals in a directory, made and looked for as the server and the command line do."""

from pathlib import Path

from holdfast.audit.recorder import Recorder
from holdfast.audit.search import Question, Refusals, search
from holdfast.domain.stock.command import Verdict
from holdfast.domain.stock.outcome import Outcome

SOLD_OUT = Verdict(Outcome.SOLD_OUT, available=0)


def record(directory: Path, *owner_ids: str, sku_id: str = "sku", sale_id: str | None = None) -> None:
    """One refusal each, in a segment of its own that is finished."""
    recorder = Recorder(directory)
    recorder.start()
    for number, owner_id in enumerate(owner_ids):
        recorder.note(SOLD_OUT, sku_id, owner_id, 1, f"r{number}", sale_id)
    recorder.stop()


def found(directory: Path, owner_id: str, sku_id: str | None = None, sale_id: str | None = None) -> Refusals:
    return search(directory, Question(owner_id, sku_id, sale_id))


def count(directory: Path, owner_id: str) -> int:
    return sum(found(directory, owner_id).counts.values())
