"""`holdfast lottery`."""

import base64
from pathlib import Path
from typing import Annotated

import httpx
import msgspec
import typer
from msgspec import Meta, Struct

from holdfast.cli.output import AsJson, examples, print_json
from holdfast.domain.lottery import SEED_BYTES, Draw, Order
from holdfast.domain.lottery_check import Published, Ticket, checks_of
from holdfast.errors import SettingsError

app = typer.Typer(
    help="Check the draw of a lottery.",
    no_args_is_help=True,
    epilog=examples("holdfast lottery verify now.json --ticket ticket.jwt"),
)

TIMEOUT_S = 10.0
Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Meta(ge=0, lt=2**48)]


class Lottery(Struct):
    seed_hash: Hash
    seed: Hash | None = None
    entrants: Count | None = None
    digest: Hash | None = None
    beacon: str = ""


class Now(Struct):
    """What is needed of the document that `GET /v1/sales/{id}/now` answers with."""

    sale_id: str
    lottery: Lottery


class Claims(Struct):
    arrival: Count
    sale: str
    sub: str
    jti: str
    seed_hash: Hash
    position: Count | None = None


# Keeps `verify` a command of its own though it is the only one.
@app.callback()
def _group() -> None:
    pass


@app.command(
    "verify",
    epilog=examples(
        "holdfast lottery verify http://127.0.0.1:8000/v1/sales/demo/now --arrival 17",
        "holdfast lottery verify now.json --arrival 17 --position 4203",
        "holdfast lottery verify now.json --ticket ticket.jwt --entries list.txt",
        "holdfast lottery verify https://…/now --ticket ticket.jwt \\",
        "  --entries https://…/lottery/entries",
    ),
)
def verify(
    now: Annotated[str, typer.Argument(help="The sale's `now` document: a file or an address.", metavar="NOW")],
    ticket: Annotated[str | None, typer.Option(help="A ticket, or a file with one.", metavar="JWT")] = None,
    arrival: Annotated[int | None, typer.Option(help="Your arrival number, from 0.", metavar="N", min=0)] = None,
    position: Annotated[int | None, typer.Option(help="The position told, from 1.", metavar="N", min=1)] = None,
    seed_hash: Annotated[str | None, typer.Option(help="The hash you noted before.", metavar="HASH")] = None,
    entries: Annotated[
        str | None, typer.Option(help="The published list, to check too: a file or an address.", metavar="LIST")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute a place in line from the published seed, and say whether it is the right one.

    Without a position it says which one you should have. The signature of a ticket is not looked at: a place that
    comes out of the seed is right whoever wrote it down.
    """
    published = _published(now, entries)
    claimed = _claimed(ticket, arrival, position, seed_hash)
    found = checks_of(published, claimed)
    is_right = all(check.ok for check in found)
    place = Order(published.draw).place_of(claimed.arrival) + 1
    if as_json:
        print_json({"ok": is_right, "position": place, "checks": [msgspec.to_builtins(check) for check in found]})
    else:
        for check in found:
            typer.echo(f"{'ok   ' if check.ok else 'WRONG'} {check.name}: {check.detail}")
        typer.echo(f"Arrival number {claimed.arrival} has position {place} in {published.draw.sale_id}.")
    raise typer.Exit(0 if is_right else 1)


def _published(source: str, entries: str | None) -> Published:
    try:
        now = msgspec.json.decode(_fetched(source), type=Now)
    except msgspec.MsgspecError as exc:
        raise SettingsError(f"{source} is not the `now` document of a lottery: {exc}") from exc
    told = now.lottery
    if told.seed is None or told.entrants is None or told.digest is None:
        raise SettingsError("the seed is not published yet: it is when the sale opens")
    seed = bytes.fromhex(told.seed)
    assert len(seed) == SEED_BYTES
    draw = Draw(now.sale_id, seed, told.entrants, told.digest, told.beacon)
    return Published(draw, told.seed_hash, None if entries is None else _entries(entries))


def _fetched(source: str) -> bytes:
    return _answer(source).content if _is_address(source) else _text(Path(source)).encode()


def _entries(source: str) -> list[str]:
    """A list that comes in portions says in each where the next one is."""
    if not _is_address(source):
        return _text(Path(source)).split()
    entries, next_ = list[str](), source
    while next_:
        answer = _answer(next_)
        entries += answer.text.split()
        next_ = str(answer.url.join(answer.links["next"]["url"])) if "next" in answer.links else ""
    return entries


def _is_address(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _answer(address: str) -> httpx.Response:
    try:
        return httpx.get(address, timeout=TIMEOUT_S, follow_redirects=True).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise SettingsError(f"{address} cannot be read: {exc}") from exc


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, ValueError) as exc:
        raise SettingsError(f"{path} cannot be read: {exc}") from exc


def _claimed(ticket: str | None, arrival: int | None, position: int | None, seed_hash: str | None) -> Ticket:
    if (ticket is None) == (arrival is None):
        raise SettingsError("give either --ticket or --arrival")
    if ticket is None:
        assert arrival is not None
        return Ticket(arrival, position, seed_hash=seed_hash)
    claims = _claims_of(ticket if ticket.count(".") == 2 else _text(Path(ticket)).strip())
    told = claims.position if position is None else position
    return Ticket(claims.arrival, told, claims.sale, claims.sub, claims.jti, seed_hash or claims.seed_hash)


def _claims_of(token: str) -> Claims:
    try:
        payload = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=Claims)
    except (msgspec.MsgspecError, ValueError, IndexError) as exc:
        raise SettingsError(f"this is not a ticket of a lottery: {exc}") from exc
