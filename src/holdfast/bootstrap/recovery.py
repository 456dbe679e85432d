"""`holdfast recover`: what a ledger that went back lacks, and how a person continues with it.

Nothing is guessed. What servers remember (their exports) is imported where there are units for it, and so are holds of
which buyers have a receipt. A receipt does not say how long its hold lasts: as long as any hold may. Charges that the
ledger lacks are brought back in any case: money was taken. Then a new incarnation begins, which records who decided,
what was brought back and what was not. Servers notice that and serve again.
"""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

import msgspec
from msgspec import Struct
from sqlalchemy import Connection

from holdfast.access.receipts import Receipts
from holdfast.bootstrap.marks import compare_marks, mark_stores
from holdfast.bootstrap.payments import begun_since
from holdfast.domain.stock.limits import MAX_HOLD_MS
from holdfast.domain.stock.reservation import Reservation, Status, sku_of
from holdfast.errors import SettingsError
from holdfast.gate.engine import Engine, Evidence
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark.mark import (
    Acknowledged,
    Loss,
    Mark,
    begin_incarnation,
    lacking,
    read_incarnations,
    read_mark,
    went_back,
)
from holdfast.ledger.stock.batch import batch_queries
from holdfast.ledger.stock.journal import outrun_epochs
from holdfast.ledger.stock.recovery.restore import restore
from holdfast.runtime.signing import parse_signing_keys
from holdfast.settings import Settings
from holdfast.settlement.unknown_charges import FoundCharges, UnknownCharge, UnknownCharges

# How far the clocks of a provider and of the ledger may differ, and then some.
MARGIN_MS = 3_600_000
EXPORTS = "ledger-went-back-*.json"


class Missing(Struct, frozen=True):
    """`findings` is empty if the ledger has everything that is known of it."""

    findings: list[str]
    ledger: Mark | None
    seen: list[Mark]
    """How far it was seen, by those who miss something."""
    reservations: list[Acknowledged]
    charges: list[UnknownCharge]
    charges_of_others: list[UnknownCharge] = []


class Decision(Struct, frozen=True):
    incarnation: str
    restored: list[str]
    given_up: list[str]
    charges: dict[str, str]
    """What became of each unknown charge, by its key."""


async def find_missing(
    settings: Settings,
    database: Database,
    engine: Engine,
    charges: UnknownCharges | None,
    exports: Sequence[Path] = (),
    receipts: Sequence[Path] = (),
) -> Missing:
    """Without `charges`, the providers are not asked. `receipts`: files with one in each line."""
    ledger = await database.read(read_mark)
    listed = [each.incarnation for each in await database.read(read_incarnations)]
    own = sorted(settings.data.glob(EXPORTS))
    losses = [loss for path in (*own, *exports) if _is_current(loss := _read(path), listed)]
    seen = [(loss.finding, loss.seen) for loss in losses]
    seen += await compare_marks(settings, database, mark_stores(settings, engine))
    since = await begun_since(database, MARGIN_MS)
    charged = FoundCharges()
    if charges is not None:
        charged = await charges.find(since, [mark.incarnation for _, mark in seen])
        mark = None if seen else await charges.lacking_mark(since) or _unlisted(charged, listed)
        if mark is not None:
            seen = [(str(await database.read(partial(went_back, seen=mark))), mark)]
    found = [finding for finding, _ in seen]
    # What is known better comes last.
    known = await _held_by(settings, database, receipts) if receipts else []
    known += [each for loss in losses for each in loss.reservations]
    if found and engine.evidence is not None:
        known += await engine.evidence.holds()
    lost = await database.read(lambda c: lacking(c, known)) if known else []
    # A healthy ledger does not have the charges of this moment yet.
    unknown = charged.ours if found else []
    marks = [mark for _, mark in seen]
    return Missing(list(dict.fromkeys(found)), ledger, marks, lost, unknown, charged.of_others)


async def _held_by(settings: Settings, database: Database, files: Sequence[Path]) -> list[Acknowledged]:
    """The holds of these receipts that can still be live."""
    now, ours = await database.read(database.now_ms), Receipts(parse_signing_keys(settings.signing_key_text()))
    held = []
    for file in files:
        for number, line in enumerate(file.read_text().split(), 1):
            given = ours.read(line)
            sku_id = None if given is None else sku_of(given.reservation_id)
            if given is None or sku_id is None:
                raise SettingsError(f"{file}: receipt {number} was not signed with HOLDFAST_SIGNING_KEY")
            at = given.created_at_s * 1000
            if at + MAX_HOLD_MS > now:
                whose = (given.reservation_id, sku_id, given.owner_id, given.quantity)
                held.append(Acknowledged(Reservation(*whose, Status.ACTIVE, at, at + MAX_HOLD_MS)))
    return held


async def decide(
    database: Database,
    evidence: Evidence | None,
    missing: Missing,
    charges: UnknownCharges | None,
    by: str,
    *,
    restoring: bool,
) -> Decision:
    """Continue with the ledger as it is, with or without what can be restored."""
    adopted: dict[str, str] = {}
    if charges is not None:
        adopted = {each.listed.charge.key: await charges.adopt(each) for each in missing.charges}
    restored = await _restore(database, missing.reservations) if restoring else []
    given_up = sorted({each.reservation_id for each in missing.reservations} - set(restored))
    lost = [each.reservation for each in missing.reservations if each.reservation_id not in restored]
    facts: dict[str, object] = {"findings": missing.findings, "restoring": restoring, "restored": restored}
    facts["given_up"] = lost
    facts |= {"charges": adopted, "charges_of_others": [each.facts for each in missing.charges_of_others]}
    report = msgspec.json.encode(facts).decode()

    if evidence is not None:
        await evidence.close_pools()

    def begin(connection: Connection) -> str:
        outrun_epochs(connection)
        now, listed = database.now_ms(connection), [each.incarnation for each in read_incarnations(connection)]
        # A backup may be older than the incarnation that was seen, and servers wait until that one is listed.
        for unlisted in dict.fromkeys(mark.incarnation for mark in missing.seen if mark.incarnation not in listed):
            listed.append(begin_incarnation(connection, len(listed) + 1, now, incarnation=unlisted))
        lost_seq = max([mark.seq for mark in missing.seen], default=0)
        decision = {"lost_seq": lost_seq, "decided_by": by, "report": report}
        return begin_incarnation(connection, len(listed) + 1, now, **decision)

    return Decision(await database.write(begin), restored, given_up, adopted)


async def _restore(database: Database, lost: Sequence[Acknowledged]) -> list[str]:
    queries, restored = batch_queries(database.dialect_name), []
    ordered = sorted(lost, key=lambda each: (each.reservation.sku_id, each.reservation_id))
    for sku_id, group in groupby(ordered, key=lambda each: each.reservation.sku_id):
        work = partial(restore, queries=queries, clock=database, sku_id=sku_id, lost=list(group))
        restored += await database.write(work, timeout_s=60.0)
    return restored


def _unlisted(charged: FoundCharges, listed: Sequence[str]) -> Mark | None:
    """A charge for a sale of this ledger, made by an incarnation that began after the backup."""
    marks = [each.mark for each in charged.ours if each.mark is not None]
    return next((mark for mark in marks if mark.incarnation not in listed), None)


def _is_current(loss: Loss, listed: Sequence[str]) -> bool:
    """Not one that was decided about before, nor one of another database."""
    if loss.seen.incarnation in listed:
        return loss.seen.incarnation == listed[-1]
    return loss.ledger is None or not listed or loss.ledger.incarnation == listed[-1]


def _read(path: Path) -> Loss:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Loss)
    except (OSError, msgspec.MsgspecError) as exc:
        raise SettingsError(f"{path} is not an export of a server whose ledger went back: {exc}") from exc
