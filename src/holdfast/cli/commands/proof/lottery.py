"""`holdfast lottery`."""

import base64
import time
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

import httpx
import msgspec
import typer
from msgspec import Meta, Struct

from holdfast.cli.output import AsJson, examples, print_json
from holdfast.domain.room.lottery import SEED_BYTES, Draw, Order
from holdfast.domain.room.lottery_check import Published, Ticket, checks_of
from holdfast.errors import SettingsError

app = typer.Typer(
    help="Verify the draw of a lottery.",
    no_args_is_help=True,
    epilog=examples("holdfast lottery verify now.json --ticket ticket.jwt"),
)

TIMEOUT_S = 10.0
# Servers limit the rate of long lists and say when to request the next portion.
ATTEMPTS = 20
LONGEST_WAIT_S = 10
Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[int, Meta(ge=0, lt=2**48)]


class Lottery(Struct):
    seed_hash: Hash
    seed: Hash | None = None
    entrants: Count | None = None
    digest: Hash | None = None
    beacon: Hash | None = None
    beacon_source: str | None = None
    beacon_value: str | None = None
    line_id: str | None = None


class Now(Struct):
    """The fields of `GET /v1/sales/{id}/now` that verification needs."""

    sale_id: str
    lottery: Lottery


class Claims(Struct):
    arrival: Count
    sale: str
    sub: str
    jti: str
    seed_hash: Hash
    position: Count | None = None
    entry: Count | None = None
    beacon_source: str | None = None


# Keeps `verify` a subcommand although it is the only one.
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
    now: Annotated[str, typer.Argument(help="The sale's `now` document: a file or a URL.", metavar="NOW")],
    ticket: Annotated[str | None, typer.Option(help="A ticket, or a file that contains one.", metavar="JWT")] = None,
    arrival: Annotated[
        int | None, typer.Option(help="The line of your entry in the list, from 0.", metavar="N", min=0)
    ] = None,
    position: Annotated[
        int | None, typer.Option(help="The position you were given, from 1.", metavar="N", min=1)
    ] = None,
    seed_hash: Annotated[str | None, typer.Option(help="The seed hash you noted earlier.", metavar="HASH")] = None,
    entries: Annotated[
        str | None, typer.Option(help="The published list to verify: a file or a URL.", metavar="LIST")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute a queue position from the published seed and verify it.

    Without a position it prints the one you should have. It does not check the ticket's signature: the position
    follows from the seed alone.
    """
    published = _published(now, entries)
    claimed = _claimed(ticket, arrival, position, seed_hash)
    found = checks_of(published, claimed)
    is_right = all(check.ok for check in found)
    place = Order(published.draw).place_of(claimed.number) + 1
    if as_json:
        print_json({"ok": is_right, "position": place, "checks": [msgspec.to_builtins(check) for check in found]})
    else:
        for check in found:
            typer.echo(f"{'ok   ' if check.ok else 'WRONG'} {check.name}: {check.detail}")
        typer.echo(f"Entry number {claimed.number} has position {place} in {published.draw.sale_id}.")
    raise typer.Exit(0 if is_right else 1)


def _published(source: str, entries: str | None) -> Published:
    try:
        now = msgspec.json.decode(_fetched(source), type=Now)
    except msgspec.MsgspecError as exc:
        raise SettingsError(f"{source} is not the `now` document of a lottery: {exc}") from exc
    lottery = now.lottery
    if lottery.seed is None or lottery.entrants is None or lottery.digest is None:
        raise SettingsError("the seed is not published yet; it will be when the sale opens")
    seed = bytes.fromhex(lottery.seed)
    assert len(seed) == SEED_BYTES
    draw = Draw(lottery.line_id or now.sale_id, seed, lottery.entrants, lottery.digest, lottery.beacon or "")
    listed = None if entries is None else _entries(entries)
    return Published(draw, lottery.seed_hash, listed, lottery.beacon_source, lottery.beacon_value)


def _fetched(source: str) -> bytes:
    return _answer(source).content if _is_url(source) else _text(Path(source)).encode()


def _entries(source: str) -> list[str]:
    """Follow the `Link` header of each page of the list."""
    if not _is_url(source):
        return _text(Path(source)).split()
    entries, next_ = list[str](), source
    while next_:
        answer = _answer(next_)
        entries += answer.text.split()
        next_ = str(answer.url.join(answer.links["next"]["url"])) if "next" in answer.links else ""
    return entries


def _is_url(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _answer(url: str) -> httpx.Response:
    try:
        for _ in range(ATTEMPTS):
            answer = httpx.get(url, timeout=TIMEOUT_S, follow_redirects=True)
            if answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
                break
            time.sleep(_asked_to_wait_s(answer))
        return answer.raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise SettingsError(f"{url} cannot be read: {exc}") from exc


def _asked_to_wait_s(answer: httpx.Response) -> int:
    asked = answer.headers.get("retry-after", "")
    return min(int(asked), LONGEST_WAIT_S) if asked.isdecimal() else 1


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as exc:
        raise SettingsError(f"{path} cannot be read: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise SettingsError(f"{path} is not text") from exc


def _claimed(ticket: str | None, arrival: int | None, position: int | None, seed_hash: str | None) -> Ticket:
    if (ticket is None) == (arrival is None):
        raise SettingsError("give either --ticket or --arrival")
    if ticket is None:
        assert arrival is not None
        return Ticket(arrival, position, seed_hash=seed_hash)
    claims = _claims_of(ticket if ticket.count(".") == 2 else _text(Path(ticket)).strip())
    shown = claims.position if position is None else position
    # Before anyone left the queue, an entry's number is the arrival number.
    number = claims.arrival if claims.entry is None else claims.entry
    commitment = (seed_hash or claims.seed_hash, claims.beacon_source)
    return Ticket(number, shown, claims.sale, claims.sub, claims.jti, *commitment)


def _claims_of(token: str) -> Claims:
    try:
        payload = token.split(".")[1]
        return msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)), type=Claims)
    except (msgspec.MsgspecError, ValueError, IndexError) as exc:
        raise SettingsError(f"this is not a lottery ticket: {exc}") from exc
