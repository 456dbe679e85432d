"""A server writes checkpoints by itself, and they prove what its buyers were given."""

from pathlib import Path

from http_calling import body_of, eventually
from http_serving import Server

pytest_plugins = ("http_fixtures",)


def checkpoints_of(server: Server) -> bytes:
    return b"".join(file.read_bytes() for file in server.directory.rglob("checkpoints.jsonl"))


def test_a_reservation_is_soon_in_a_checkpoint_and_its_receipt_can_be_checked_without_the_database(
    server: Server, tmp_path: Path
) -> None:
    shop = server.shop()
    shop.provision(3)
    granted = shop.reserve("ada")
    reservation_id = body_of(granted)["reservation_id"]
    receipt, proof, kept = (tmp_path / name for name in ("receipt", "proof.json", "checkpoints.jsonl"))
    receipt.write_text(granted.headers.get("holdfast-receipt", ""))
    with_receipt = ["--receipt", str(receipt)] if receipt.read_text() else []

    def proven() -> str:
        kept.write_bytes(checkpoints_of(server))
        code, out, _ = server.run("verify", "--prove", reservation_id, "--checkpoint", str(kept), *with_receipt)
        return out if code == 0 else ""

    proof.write_text(eventually(proven))
    checked = server.command("verify", "--receipt", str(proof), "--checkpoint", str(kept))
    assert checked["ok"] is True
    proof.write_text(proof.read_text().replace("reservation.created", "reservation.expired"))
    code, out, _ = server.run("verify", "--receipt", str(proof), "--checkpoint", str(kept))
    assert code == 1
    assert "events_in_checkpoint" in out


def test_verify_says_up_to_where_history_is_proven(server: Server, tmp_path: Path) -> None:
    server.shop().provision(1)
    kept = tmp_path / "checkpoints.jsonl"
    kept.write_bytes(eventually(lambda: checkpoints_of(server)))
    _, out, err = server.run("verify", "--verbose", "--checkpoint", str(kept))
    assert "✓  history_matches_checkpoints" in out, err
    assert "History: proven up to event" in out
    code, _, err = server.run("verify", "--checkpoint", str(kept), "--public-key", "00" * 32)
    assert (code, "no valid signature" in err) == (2, True)
