"""A rush compares stock with lists only when the ledger has everything that was decided."""

from typing import cast

import pytest
from rush_evidence import hurried

from holdfast.errors import Unavailable
from holdfast.lab.rush import run
from holdfast.lab.rush.run import Options, until_ledger_has_all
from holdfast.lab.rush.server.sale_admin import JournalLag, Lags, SaleAdmin
from holdfast.lab.rush.server.target import Target

OPTIONS = Options(hurried("vouchers"), 1, 1, 1)
OLD, BEHIND = Lags("12:00:00", JournalLag(0)), Lags("12:00:01", JournalLag(3))
UP_TO_DATE = Lags("12:00:02", JournalLag(0))


class Admin:
    def __init__(self, *answers: Lags | None) -> None:
        self.answers = list(answers)

    async def lags(self) -> Lags | None:
        answer = self.answers.pop(0)
        if answer is BEHIND and BEHIND not in self.answers:
            raise Unavailable("busy")
        return answer


async def asked_until_read(engine: str, *answers: Lags | None) -> list[Lags | None]:
    """The answers that were not needed."""
    admin = Admin(*answers)
    await until_ledger_has_all(Target("http://127.0.0.1:1", "s", engine=engine), cast("SaleAdmin", admin), OPTIONS)
    return admin.answers


@pytest.mark.parametrize("engine", ["redis", ""])
async def test_it_waits_for_an_answer_made_since_that_lacks_nothing(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_POLL_S", 0.0)
    assert await asked_until_read(engine, OLD, OLD, BEHIND, BEHIND, UP_TO_DATE, UP_TO_DATE) == [UP_TO_DATE]


async def test_it_waits_no_longer_than_for_holds_to_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "_POLL_S", 0.0)
    now = iter(range(0, 1_000, 20))
    monkeypatch.setattr(run, "monotonic", lambda: next(now))
    assert await asked_until_read("redis", *[OLD] * 6) == [OLD] * 4


async def test_it_does_not_wait_where_the_ledger_decides_or_the_key_may_not_see_it() -> None:
    assert await asked_until_read("postgres", OLD) == [OLD]
    assert await asked_until_read("", None, OLD) == [OLD]
