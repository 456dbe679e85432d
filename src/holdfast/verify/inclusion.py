"""Proof that the events of a reservation are in the history of a checkpoint, for someone without the database.

For each event: the row, the hashes of the events in its group, the path from the group to the root of its link, and the
path from that link to the root of the checkpoint. Everything except the row is hashes, so nothing else is disclosed.
"""

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import Connection

from holdfast.domain.chain.merkle import leaf_hash, path_to, root_by_path
from holdfast.errors import SettingsError
from holdfast.ledger.chain.checkpoint import Checkpoint
from holdfast.ledger.chain.leaves import read_contents, read_hashes, unkept
from holdfast.ledger.chain.links import GROUP, Link, groups_of, read_links
from holdfast.ledger.engine.facts import NO_FACTS
from holdfast.ledger.tables.stock import events
from holdfast.verify.check import EXAMPLES_MAX, Finding, Level


class ProvenEvent(Struct, frozen=True):
    """`content` is the hashed content (`ledger/chain/leaves.py`). `number` determines its group within the link."""

    content: str
    group: list[str]
    number: int
    path: list[str]
    link: Link
    link_path: list[str]

    def root(self, links: int) -> str | None:
        """The root over that many links that this event belongs to; None if the paths do not lead there."""
        if leaf_hash(self.content.encode()).hex() not in self.group:
            return None
        [leaf], count = groups_of([bytes.fromhex(each) for each in self.group]), -(-self.link.events // GROUP)
        of_link = root_by_path(leaf, self.number, count, map(bytes.fromhex, self.path))
        if of_link is None or of_link.hex() != self.link.root:
            return None
        found = root_by_path(self.link.hash, self.link.number - 1, links, map(bytes.fromhex, self.link_path))
        return None if found is None else found.hex()


class InclusionProof(Struct, frozen=True):
    reservation_id: str
    links: int
    events: list[ProvenEvent]
    receipt: str | None = None


def prove_inclusion(
    connection: Connection, reservation_id: str, checkpoint: Checkpoint, receipt: str | None = None
) -> InclusionProof:
    own = read_contents(connection, events.c.reservation_id == reservation_id, events.c.seq <= checkpoint.seq)
    if not own:
        raise SettingsError(f"the history of the checkpoint has no events of {reservation_id}")
    if {seq for seq, _ in own} - {*unkept(connection, [seq for seq, _ in own])}:
        raise SettingsError(f"the buyer of {reservation_id} was erased; of the original events only hashes are left")
    history = read_links(connection, checkpoint.links)
    hashes = [link.hash for link in history]
    proven = []
    for its_seq, content in own:
        number = next(n for n, link in enumerate(history) if link.last_seq >= its_seq)
        after = history[number - 1].last_seq if number else None
        covered = read_hashes(connection, after, history[number].last_seq)
        all_hashes, at = [each for _, each in covered], [seq for seq, _ in covered].index(its_seq) // GROUP
        group, path = all_hashes[at * GROUP : (at + 1) * GROUP], path_to(groups_of(all_hashes), at)
        link_path = path_to(hashes, number)
        proven.append(ProvenEvent(content, _hex(group), at, _hex(path), history[number], _hex(link_path)))
    return InclusionProof(reservation_id, checkpoint.links, proven, receipt)


def check_inclusion(proof: InclusionProof, checkpoints: Sequence[Checkpoint]) -> list[Finding]:
    """Needs no ledger."""
    roots = {each.root for each in checkpoints if each.links == proof.links}
    strangers = [{"event": each.content} for each in proof.events if not _is_included(each, proof, roots)]
    others = [] if proof.receipt is None else list(_contradictions(proof.receipt, proof))
    return [
        _finding("events_in_checkpoint", "The events are in the history of the checkpoint.", proof, strangers),
        _finding("receipt_as_recorded", "The receipt is of the reservation that the events record.", proof, others),
    ]


def parse_receipt(text: str) -> dict[str, Any]:
    """The contents of a receipt. Its signature is symmetric: only the server can check it."""
    try:
        payload = text.split(".")[1]
        claims = msgspec.json.decode(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=dict[str, Any])
    except (IndexError, binascii.Error, msgspec.MsgspecError) as exc:
        raise SettingsError(f"this is not a receipt: {exc}") from exc
    return claims


def _is_included(event: ProvenEvent, proof: InclusionProof, roots: set[str]) -> bool:
    try:
        return _row_of(event).get("reservation_id") == proof.reservation_id and event.root(proof.links) in roots
    except (ValueError, msgspec.MsgspecError):
        return False


def _row_of(event: ProvenEvent) -> dict[str, Any]:
    return msgspec.json.decode(event.content, type=dict[str, Any])


def _contradictions(receipt: str, proof: InclusionProof) -> Iterator[dict[str, Any]]:
    claims = parse_receipt(receipt)
    rows = map(_row_of, proof.events)
    created = next((row for row in rows if row.get("type") == "reservation.created"), {})
    facts = msgspec.json.decode(created.get("facts") or NO_FACTS, type=dict[str, Any])
    says = {
        "jti": created.get("reservation_id"),
        "qty": created.get("quantity"),
        "iat": facts.get("created_at", created.get("at", 0)) // 1000,
    }
    # Events of earlier releases do not have the owner.
    says |= {"sub": facts["owner_id"]} if "owner_id" in facts else {}
    for name, value in says.items():
        if claims.get(name) != value:
            yield {"claim": name, "receipt": claims.get(name), "history": value}


def _finding(name: str, means: str, proof: InclusionProof, found: list[dict[str, Any]]) -> Finding:
    return Finding(name, means, Level.FAILURE, len(proof.events), len(found), found[:EXAMPLES_MAX])


def _hex(path: Sequence[bytes]) -> list[str]:
    return [each.hex() for each in path]
