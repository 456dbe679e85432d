"""How far a replica is behind, told from positions and our own clock."""

import pytest

from holdfast.errors import SettingsError
from holdfast.ledger.replicas.lag import Note, PrimaryNotes
from holdfast.ledger.replicas.position import position_of, token_of
from holdfast.settings import Settings


def notes_of(*notes: tuple[float, int, int]) -> PrimaryNotes:
    notes_ = PrimaryNotes()
    for at, position, heartbeat in notes:
        notes_.add(Note(at, position, heartbeat))
    return notes_


def test_a_replica_of_an_idle_primary_does_not_lag() -> None:
    assert notes_of((1.0, 100, 1), (2.0, 100, 1)).lag_s(100, now=9.0) == 0


def test_a_replica_lags_since_the_first_position_that_it_lacks() -> None:
    notes = notes_of((1.0, 100, 1), (1.1, 150, 1), (1.2, 200, 1))
    assert notes.lag_s(149, now=1.25) == pytest.approx(0.15)
    assert notes.lag_s(199, now=1.25) == pytest.approx(0.05)
    assert notes.lag_s(0, now=1.25) == pytest.approx(0.25)


def test_a_replica_that_is_further_than_what_it_has_follows_another_primary() -> None:
    notes = notes_of((1.0, 100, 5_000), (1.1, 150, 6_000))
    assert notes.is_diverged(400, 4_000)
    assert not notes.is_diverged(400, 5_000)
    # It is merely behind.
    assert not notes.is_diverged(90, 4_000)


def test_what_was_noted_of_a_primary_is_forgotten_when_another_one_is_behind_it() -> None:
    assert notes_of((1.0, 100, 1), (1.1, 60, 1)).lag_s(60, now=2.0) == 0


@pytest.mark.parametrize("token", [None, "", "p", "made-up", "pxyz", "p" + "f" * 17, "p12 "])
def test_a_token_that_is_not_ours_says_nothing(token: str | None) -> None:
    assert position_of(token) is None


def test_a_token_stands_for_its_position() -> None:
    assert position_of(token_of(0x1234_5678_9ABC)) == 0x1234_5678_9ABC


def test_replicas_need_postgresql_and_a_url_each() -> None:
    with pytest.raises(SettingsError, match="needs HOLDFAST_DATABASE_URL"):
        Settings(database_replica_urls="postgresql://h2/shop")
    with pytest.raises(SettingsError, match="number 2 is not a URL"):
        Settings(database_url="postgresql://h1/shop", database_replica_urls="postgresql://h2/shop,h3")
    settings = Settings(
        database_url="postgresql://h1/shop", database_replica_urls="postgresql://h2/a, postgresql://h3/b"
    )
    assert settings.replica_urls == ["postgresql://h2/a", "postgresql://h3/b"]
