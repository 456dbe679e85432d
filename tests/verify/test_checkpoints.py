"""A checkpoint kept elsewhere shows every rewrite of history before it, and proves single reservations."""

from functools import partial
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, delete, insert, select, update

from holdfast.access.receipts import Receipts
from holdfast.domain.chain.merkle import leaf_hash
from holdfast.domain.stock.command import Move, Provision, Reserve, Transition
from holdfast.domain.stock.reservation import new_reservation_id
from holdfast.errors import SettingsError
from holdfast.gate.sql import SqlGate
from holdfast.ledger.chain.checkpoint import Checkpoint, CheckpointKey, parse_checkpoints
from holdfast.ledger.chain.links import Head, read_head
from holdfast.ledger.engine.database import Database
from holdfast.ledger.mark import checkpoint_log
from holdfast.ledger.mark.checkpoint_log import CheckpointLog
from holdfast.ledger.mark.mark import KeptMark, Mark, begin_incarnation, read_mark, went_back
from holdfast.ledger.stock.queries import find_reservation
from holdfast.ledger.tables.chain import links
from holdfast.ledger.tables.stock import events
from holdfast.runtime.signing import SigningKey
from holdfast.testing.states import NOW, SKU
from holdfast.verify.history import compare
from holdfast.verify.inclusion import InclusionProof, check_inclusion, prove_inclusion
from holdfast.verify.prove import prove
from linked import latest_event, link_all

KEY = SigningKey("k", "s" * 32)
SIGNER = CheckpointKey(KEY)


async def sold(database: Database, *owners: str) -> list[str]:
    ids = [new_reservation_id(SKU, owner) for owner in owners]
    gate = SqlGate(database)
    await gate.apply(SKU, [Provision(100)])
    for id_, owner in zip(ids, owners, strict=True):
        await gate.apply(SKU, [Reserve(id_, owner, 1, 1), Move(Transition.CONFIRM, id_)])
        await link_all(database)
    return ids


async def checkpointed(database: Database) -> Checkpoint:
    return SIGNER.sign("incarnation", await database.read(read_head), NOW)


async def refuted(database: Database, *checkpoints: Checkpoint) -> list[str]:
    found = await database.read(prove)
    if checkpoints:
        found.append((await database.read(partial(compare, checkpoints=checkpoints)))[0])
    return [finding.name for finding in found if not finding.ok]


def relink(connection: Connection) -> None:
    connection.execute(delete(links))


async def test_history_is_proven_up_to_the_checkpoint_and_what_came_after_is_counted(database: Database) -> None:
    await sold(database, "ada", "bob")
    first = await checkpointed(database)
    await sold(database, "cid")
    second = await checkpointed(database)
    assert await refuted(database, first, second) == []
    _, history = await database.read(partial(compare, checkpoints=[first]))
    assert (history.proven_seq, history.proven_at, history.events_after) == (first.seq, NOW, 2)
    _, history = await database.read(partial(compare, checkpoints=[second, first]))
    assert (history.proven_seq, history.events_after) == (second.seq, 0)


@pytest.mark.parametrize("what", ["change", "delete", "insert", "reorder", "cut off", "relink"])
async def test_a_rewrite_that_computes_the_chain_anew_is_found_with_the_checkpoint_only(
    database: Database, what: str
) -> None:
    await sold(database, "ada", "bob", "cid")
    kept = await checkpointed(database)

    def rewrite(connection: Connection) -> None:
        rows = [dict(row._mapping) for row in connection.execute(select(events).order_by(events.c.seq))]
        connection.execute(delete(links))
        connection.execute(delete(events))
        match what:
            case "change":
                rows[3] |= {"at": rows[3]["at"] + 1}
            case "delete":
                del rows[1]
            case "insert":
                rows.append(rows[-1] | {"seq": rows[-1]["seq"] + 1, "type": "pool.drift", "reservation_id": None})
            case "reorder":
                rows[1], rows[3] = rows[1] | {"seq": rows[3]["seq"]}, rows[3] | {"seq": rows[1]["seq"]}
            case "cut off":
                del rows[-1]
        connection.execute(insert(events), rows)

    await database.write(rewrite)
    await link_all(database)
    assert "history_unchanged" not in await refuted(database)
    assert "history_matches_checkpoints" in await refuted(database, kept)


async def test_a_running_server_notices_that_history_was_rewritten(database: Database) -> None:
    await sold(database, "ada", "bob")
    await database.write(lambda c: begin_incarnation(c, 1, NOW))
    seen = await database.read(read_mark)
    assert seen is not None
    assert seen.head.links > 0
    assert await database.read(partial(went_back, seen=seen)) is None
    await sold(database, "cid")
    assert await database.read(partial(went_back, seen=seen)) is None
    first = await database.read(lambda c: c.execute(select(events.c.seq).order_by(events.c.seq)).scalars().first())
    await database.write(lambda c: c.execute(update(events).where(events.c.seq == first).values(at=1)))
    await database.write(relink)
    await link_all(database)
    assert "history" in str(await database.read(partial(went_back, seen=seen)))


# --- the file


def test_only_checkpoints_that_the_server_signed_are_accepted() -> None:
    made = SIGNER.sign("i", Head(3, 17, "ab"), NOW)
    line = msgspec.json.encode(made)
    assert parse_checkpoints(line + b"\n" + line[:40] + b"\n", "file", SIGNER.public_key) == [made]
    for forged in (
        replace(made, root="cd"),
        replace(made, at=1),
        replace(made, signature="00"),
        replace(made, links=4),
    ):
        with pytest.raises(SettingsError, match="signature"):
            parse_checkpoints(msgspec.json.encode(forged), "file")
    with pytest.raises(SettingsError, match="signature"):
        parse_checkpoints(line, "file", CheckpointKey(SigningKey("k", "t" * 32)).public_key)
    with pytest.raises(SettingsError, match="no checkpoint"):
        parse_checkpoints(b"{}\n", "file")


async def test_checkpoints_are_appended_once_each_and_the_file_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "data" / "checkpoints.jsonl"
    log, other = CheckpointLog(file), CheckpointLog(file)
    heads = [Head(number, number, f"{number:064x}") for number in range(4)]
    marks = [KeptMark("here", Mark("i", head=head), SIGNER.sign("i", head, NOW)) for head in heads]
    for mark in [KeptMark("here", Mark("i")), marks[1], marks[1], marks[2]]:
        await log.write(mark)
        await other.write(mark)
    found = parse_checkpoints(file.read_bytes(), "file", SIGNER.public_key)
    assert [each.links for each in found] == [1, 2]
    with file.open("ab") as torn:
        torn.write(b'{"ledger"')
    monkeypatch.setattr(checkpoint_log, "FILE_MAX_BYTES", 100)
    await log.write(marks[3])
    assert not file.exists()
    kept = parse_checkpoints(file.with_name("checkpoints.1.jsonl").read_bytes(), "file")
    assert [each.links for each in kept] == [1, 2, 3]


# --- one reservation


async def proof_of(database: Database, id_: str, checkpoint: Checkpoint) -> InclusionProof:
    reservation = await database.read(lambda c: find_reservation(c, id_, NOW))
    assert reservation is not None
    receipt = Receipts([KEY]).sign(reservation)
    made = await database.read(partial(prove_inclusion, reservation_id=id_, checkpoint=checkpoint, receipt=receipt))
    return msgspec.json.decode(msgspec.json.encode(made), type=InclusionProof)


def failed(proof: InclusionProof, *checkpoints: Checkpoint) -> list[str]:
    return [finding.name for finding in check_inclusion(proof, checkpoints) if not finding.ok]


async def test_every_reservation_can_be_shown_to_be_in_the_history_of_a_checkpoint(database: Database) -> None:
    ids = await sold(database, "ada", "bob", "cid", "dan", "eve")
    kept = await checkpointed(database)
    for id_ in ids:
        proof = await proof_of(database, id_, kept)
        assert [msgspec.json.decode(each.content)["type"] for each in proof.events] == [
            "reservation.created",
            "reservation.confirmed",
        ]
        assert failed(proof, kept) == []


async def test_a_proof_of_something_else_is_refused(database: Database) -> None:
    ids = await sold(database, "ada", "bob", "cid")
    early = await checkpointed(database)
    [late] = await sold(database, "dan")
    kept = await checkpointed(database)
    proof, other = await proof_of(database, ids[0], kept), await proof_of(database, ids[1], kept)
    assert failed(proof, early) == ["events_in_checkpoint"]
    changed = replace(proof.events[0], content=proof.events[0].content.replace("created", "expired"))
    assert failed(replace(proof, events=[changed]), kept) == ["events_in_checkpoint", "receipt_as_recorded"]
    grouped = replace(changed, group=[leaf_hash(changed.content.encode()).hex()])
    assert "events_in_checkpoint" in failed(replace(proof, events=[grouped]), kept)
    assert failed(replace(proof, events=other.events), kept) == ["events_in_checkpoint", "receipt_as_recorded"]
    assert failed(replace(proof, receipt=other.receipt), kept) == ["receipt_as_recorded"]
    granted = await database.read(lambda c: find_reservation(c, ids[0], NOW))
    assert granted is not None
    stolen = replace(granted, owner_id="mallory")
    assert failed(replace(proof, receipt=Receipts([KEY]).sign(stolen)), kept) == ["receipt_as_recorded"]
    broken = replace(proof.events[0], path=["x"])
    assert "events_in_checkpoint" in failed(replace(proof, events=[broken]), kept)
    with pytest.raises(SettingsError, match="no events"):
        await proof_of(database, late, early)


async def test_the_whole_history_is_linked_before_it_is_proven(database: Database) -> None:
    await sold(database, "ada")
    assert (await checkpointed(database)).seq == await database.read(latest_event)
