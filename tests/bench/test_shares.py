"""Where the CPU time of a request goes, by part."""

import json

import pytest
from typer.testing import CliRunner

from holdfast.lab.bench.budgets import shares as sampling
from holdfast.lab.bench.budgets.shares import ELSEWHERE, PARTS, Share, part_of_module, shares
from holdfast.lab.commands import bench as command

KINDS = ["reserve", "purchase", "keyed_refusal", "now", "join"]


@pytest.mark.parametrize(
    ("module", "part"),
    [
        ("http/server/rsgi.py", "hand-over"),
        ("http/server/router.py", "routing"),
        ("access/identity.py", "authentication"),
        ("runtime/token_bucket.py", "limits"),
        ("http/contract/decoding.py", "decode"),
        ("gate/batcher.py", "use case, submit"),
        ("gate/sql.py", "batch"),
        ("http/contract/schemas/sales.py", "answer"),
        ("lab/load/buyer_tokens.py", ""),
        ("cli/app.py", None),
    ],
)
def test_a_module_belongs_to_one_part(module: str, part: str | None) -> None:
    assert part_of_module(module) == part


@pytest.mark.slow
def test_every_kind_of_request_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "REQUESTS", 2_560)
    found = shares("sqlite")
    assert [share.kind for share in found] == KINDS
    for share in found:
        assert set(share.parts) == {*PARTS, ELSEWHERE}
        assert sum(share.parts.values()) == pytest.approx(share.total_us, abs=1)
    assert found[0].parts["batch"] > 0


def test_the_command_prints_a_row_for_each_request(monkeypatch: pytest.MonkeyPatch) -> None:
    share = Share("sqlite", "reserve", 42.0, dict.fromkeys([*PARTS, ELSEWHERE], 4.2))
    monkeypatch.setattr(command, "shares", lambda _: [share])
    monkeypatch.setattr(command, "granian_us", lambda: 18.3)
    monkeypatch.setattr("holdfast.lab.commands.bench.signal.signal", lambda *_: None)
    shown = CliRunner().invoke(command.app, ["shares", "--engine", "sqlite"])
    assert shown.exit_code == 0
    assert "granian, in addition: 18.3 µs" in shown.output
    printed = CliRunner().invoke(command.app, ["shares", "--engine", "sqlite", "--json"])
    assert json.loads(printed.output)["shares"][0]["total_us"] == 42.0
