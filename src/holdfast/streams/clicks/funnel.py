"""Where people dropped off: read from the Parquet files of a sale, on this host."""

from collections import Counter
from pathlib import Path
from typing import Any

from msgspec import Struct

from holdfast.ledger.archive.parquet import load_pyarrow
from holdfast.streams.clicks.click import ATTEMPT, REFUSAL, STEPS
from holdfast.streams.clicks.parquet_sink import sale_directory, schema

REFUSALS_SHOWN = 10


class Step(Struct, frozen=True):
    """`people` are signed-in visitors who reached this step; `stopped` are those who went no further."""

    step: str
    clicks: int
    people: int
    stopped: int


class Refused(Struct, frozen=True):
    step: str
    reason: str
    clicks: int
    people: int


class Funnel(Struct, frozen=True):
    steps: list[Step]
    refusals: list[Refused]


def read_funnel(directory: Path, sale_id: str) -> Funnel:
    """Blocks: call it in a thread. A step implies the steps before it, whether or not they were recorded. An attempt
    counts whether or not it was refused."""
    clicks: Counter[str] = Counter()
    furthest: dict[str, int] = {}
    refused: Counter[tuple[str, str]] = Counter()
    who_refused: dict[tuple[str, str], set[str]] = {}
    for batch in _batches(directory / sale_directory(sale_id)):
        columns = [batch.column(name).to_pylist() for name in ("kind", "visitor", "step", "reason")]
        for kind, visitor, step, reason in zip(*columns, strict=True):
            if kind == REFUSAL:
                refused[step, reason] += 1
                who_refused.setdefault((step, reason), set()).add(visitor)
            reached_step = ATTEMPT if (kind, step) == (REFUSAL, ATTEMPT) else kind
            if reached_step in STEPS:
                clicks[reached_step] += 1
                if visitor:
                    furthest[visitor] = max(furthest.get(visitor, 0), STEPS.index(reached_step))
    reached = Counter(furthest.values())
    steps = [
        Step(step, clicks[step], sum(n for at, n in reached.items() if at >= index), reached[index])
        for index, step in enumerate(STEPS)
    ]
    shown = [
        Refused(step, reason, n, len(who_refused[step, reason] - {""}))
        for (step, reason), n in refused.most_common(REFUSALS_SHOWN)
    ]
    return Funnel(steps, shown)


def _batches(directory: Path) -> Any:
    if not directory.is_dir():
        return
    load_pyarrow()
    from pyarrow import dataset  # noqa: PLC0415 - an extra

    files = sorted(str(file) for file in directory.rglob("*.parquet"))
    if files:
        yield from dataset.dataset(files, schema=schema(), format="parquet").to_batches()
