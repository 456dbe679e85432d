"""A crowd simulated by several hosts: each saves what its buyers saw, and the parts are merged into one report.

Every host takes the buyers whose number modulo the number of hosts is its own, so that the same seed gives the same
crowd for any number of hosts. Host clocks must agree within `CLOCK_ERROR_S`. The order of two events on different hosts
is uncertain by that much, so the checks widen their intervals by it.
"""

from collections.abc import Sequence
from pathlib import Path
from time import monotonic, time

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.errors import SettingsError
from holdfast.lab.rush.buyers.buyer import Offer
from holdfast.lab.rush.buyers.record import BuyerRecord, Grant, QueuePlace
from holdfast.lab.rush.buyers.tally import BIN_S, Tally
from holdfast.lab.rush.run import Options, RushResult, check_records, read_ledger, until_ended, until_ledger_has_all
from holdfast.lab.rush.server.sale_admin import SaleAdmin
from holdfast.lab.rush.server.stock_monitor import Sample, StockMonitor
from holdfast.lab.rush.server.target import Target

CLOCK_ERROR_S = 0.05
# Processes of one host share its monotonic clock; their readings of its offset differ by less than this.
_SAME_HOST_S = 0.005


class Part(Struct, frozen=True):
    options: Options
    offers: list[Offer]
    starts_at: float
    ended_s: float
    tally: Tally
    records: list[BuyerRecord]
    samples: list[Sample]
    cpu_s: float
    memory_mb: float
    has_edge: bool
    clock_offset_s: float
    """Monotonic clock minus wall clock."""


def save_part(result: RushResult, path: Path) -> None:
    part = Part(
        result.options, result.offers, result.starts_at, result.ended_s, result.tally, result.records, result.samples,
        result.cpu_s, result.memory_mb, result.has_edge, monotonic() - time(),
    )  # fmt: skip
    path.write_bytes(msgspec.json.encode(part))


def read_part(path: Path) -> Part:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Part)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as exc:
        raise SettingsError(f"--merge: {path} is not what `holdfast rush --part` saves: {exc}") from exc


async def merge_parts(target: Target, parts: Sequence[Part]) -> RushResult:
    """The merged result of all hosts, checked against the server's records. A missing part is a finding."""
    merged = combine(parts)
    options, admin = merged.options, SaleAdmin(*target.origin, target.service_key)
    try:
        await until_ended(StockMonitor(admin, merged.offers), merged.offers, options)
        await until_ledger_has_all(target, admin, options)
        ledger = await read_ledger(target, options, admin, merged.offers, merged.records)
        findings = await check_records(target, options, merged.records, ledger, merged.samples)
    finally:
        admin.close()
    sold = [(at + parts[0].clock_offset_s, units) for at, units in ledger.sold()]
    return replace(merged, findings=findings, sold=sold)


def combine(parts: Sequence[Part]) -> RushResult:
    """Merges the parts, with all times on the first part's monotonic clock."""
    first = parts[0]
    _check_alike(parts)
    is_far = max(part.clock_offset_s for part in parts) - min(part.clock_offset_s for part in parts) > _SAME_HOST_S
    error_s, tally = CLOCK_ERROR_S if is_far else 0.0, Tally()
    records: list[BuyerRecord] = []
    samples: list[Sample] = []
    ended_at = 0.0
    for part in parts:
        by_s = first.clock_offset_s - part.clock_offset_s
        records += [_moved(record, by_s, error_s) for record in part.records]
        samples += [replace(sample, asked_at=sample.asked_at + by_s) for sample in part.samples]
        tally.add(_later(part.tally, part.starts_at + by_s - first.starts_at))
        ended_at = max(ended_at, part.starts_at + by_s + part.ended_s)
    options = replace(first.options, part=0, parts=1, processes=sum(part.options.processes for part in parts))
    return RushResult(
        options, "", first.offers, first.starts_at, ended_at - first.starts_at, tally, records,
        sorted(samples, key=lambda sample: sample.asked_at), [], sum(part.cpu_s for part in parts),
        sum(part.memory_mb for part in parts), has_edge=first.has_edge,
    )  # fmt: skip


def _check_alike(parts: Sequence[Part]) -> None:
    alike = {
        msgspec.json.encode([one.options.scenario, one.options.users, one.options.seed, one.options.sale_id])
        for one in parts
    }
    if len(alike) > 1:
        raise SettingsError(
            "--merge: the parts are of different crowds: scenario, users, seed and sale must be the same"
        )


def _moved(record: BuyerRecord, by_s: float, error_s: float) -> BuyerRecord:
    def moved(at: float) -> float:
        """Zero means "never" and stays zero."""
        return at + by_s if at else at

    def place(one: QueuePlace) -> QueuePlace:
        return replace(
            one, asked_at=moved(one.asked_at) - error_s, answered_at=moved(one.answered_at) + error_s,
            admitted_at=moved(one.admitted_at), stamped_at=moved(one.stamped_at),
        )  # fmt: skip

    def grant(one: Grant) -> Grant:
        return replace(
            one, asked_at=moved(one.asked_at) - error_s, answered_at=moved(one.answered_at),
            expired_at=moved(one.expired_at),
        )  # fmt: skip

    return replace(
        record, arrived_at=moved(record.arrived_at), ended_at=moved(record.ended_at),
        sold_out_at=moved(record.sold_out_at) + (error_s if record.sold_out_at else 0.0),
        places=[place(one) for one in record.places], grants=[grant(one) for one in record.grants],
    )  # fmt: skip


def _later(tally: Tally, by_s: float) -> Tally:
    bins, seconds = round(by_s / BIN_S), round(by_s)
    series = {name: {at + bins: count for at, count in found.items()} for name, found in tally.series.items()}
    return replace(tally, series=series, attempts={at + seconds: found for at, found in tally.attempts.items()})
