"""What did not answer: how a process takes note of it, and what the report makes of what several noted."""

from holdfast.bootstrap.outage_log import BACKGROUND, OVERLOAD, OutageLog
from holdfast.ledger.engine.database import Database
from holdfast.ledger.events.outages import GAP_MS, Outage, outages_between, prune_outages, write_outages

STORE, ROLES = {"sqlite"}, ("settler", "refunder")
WORKS: dict[str, str | None] = {"sqlite": None, "payment_stripe": None, "settler": None, "refunder": None}


class Watched:
    def __init__(self) -> None:
        self.log, self.now, self.written = OutageLog(STORE, ROLES), 1_000_000, list[Outage]()

    def seconds(self, number: int, refused: int = 0, **failing: str) -> None:
        for _ in range(number):
            self.log.watch({**WORKS, **failing}, refused, self.now)
            due = self.log.take_due()
            self.written += due
            self.log.wrote(due)
            self.now += 1_000

    @property
    def last(self) -> Outage:
        return self.written[-1]


def test_an_outage_has_its_beginning_and_its_end_and_costs_few_writes() -> None:
    watched = Watched()
    watched.seconds(1)
    watched.seconds(65, payment_stripe="no_answer")
    watched.seconds(30)
    assert watched.last == Outage("payment_stripe", 1_001_000, 1_065_000, "no_answer")
    assert len(watched.written) <= 9
    assert {one.began_at for one in watched.written} == {1_001_000}


def test_one_late_beat_is_none_and_one_that_flaps_is_one() -> None:
    watched = Watched()
    watched.seconds(1)
    watched.seconds(1, payment_stripe="no_answer")
    watched.seconds(30)
    assert watched.written == []
    for _ in range(10):
        watched.seconds(4, payment_stripe="no_answer")
        watched.seconds(GAP_MS // 2_000)
    watched.seconds(30)
    assert len({one.began_at for one in watched.written}) == 1


def test_what_never_worked_is_none_and_what_follows_from_the_store_is_not_named() -> None:
    log = OutageLog(STORE, ROLES)
    for now in range(0, 30_000, 1_000):
        log.watch(WORKS | {"payment_stripe": "no_answer"}, 0, now)
    assert log.take_due() == []
    watched = Watched()
    watched.seconds(1)
    watched.seconds(30, sqlite="disk_full", settler="disk_full", refunder="disk_full")
    assert {one.subject for one in watched.written} == {"sqlite"}
    watched.seconds(30)
    watched.seconds(30, settler="no_worker", refunder="no_worker")
    assert (watched.last.subject, watched.last.reason) == (BACKGROUND, "refunder, settler: no_worker")


def test_requests_refused_under_load_are_counted_from_when_the_process_began_to_watch() -> None:
    watched = Watched()
    watched.seconds(1, refused=500)
    watched.seconds(1, refused=520)
    watched.seconds(1, refused=523)
    watched.seconds(30, refused=523)
    assert (watched.last.subject, watched.last.refused) == (OVERLOAD, 23)


def test_what_could_not_be_written_stays_due() -> None:
    log = OutageLog(STORE, ROLES)
    log.watch(WORKS, 0, 0)
    for now in range(1_000, 40_000, 1_000):
        log.watch(WORKS | {"sqlite": "disk_full"}, 0, now)
    [due] = log.take_due()
    assert (due.began_at, log.take_due()) == (1_000, [due])
    log.wrote([due])
    assert log.take_due() == []


async def test_what_several_processes_saw_at_a_time_is_one(database: Database) -> None:
    early, late = Outage("redis", 1_000, 9_000, "no_answer"), Outage("redis", 5_000, 12_000, "no_answer")
    again = Outage("redis", 12_001 + GAP_MS, 50_000, "no_answer")
    shed = [Outage(OVERLOAD, 2_000, 4_000, "busy", number) for number in (3, 4)]
    await database.write(lambda c: write_outages(c, "one", [early, shed[0]]))
    await database.write(lambda c: write_outages(c, "two", [late, again, shed[1]]))
    found = await database.read(lambda c: outages_between(c, 0, 60_000))
    assert found == [
        Outage("redis", 1_000, 12_000, "no_answer"), Outage(OVERLOAD, 2_000, 4_000, "busy", 7), again,
    ]  # fmt: skip
    assert await database.read(lambda c: outages_between(c, 12_001, 20_000)) == []
    await database.write(lambda c: write_outages(c, "one", [Outage("redis", 1_000, 14_000, "no_answer")]))
    assert (await database.read(lambda c: outages_between(c, 0, 15_000)))[0].last_at == 14_000
    assert await database.write(lambda c: prune_outages(c, 20_000, limit=100)) == 4
