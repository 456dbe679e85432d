"""The rules by which a test may be tried again."""

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

TESTS = """
import pathlib
import pytest

seen = pathlib.Path(__file__).with_name("seen")

def times(name):
    with seen.open("a") as file:
        file.write(name + " ")
    return seen.read_text().split().count(name)

@pytest.fixture
def fresh(tmp_path):
    assert not list(tmp_path.iterdir())
    (tmp_path / "used").touch()

@pytest.fixture
def ending():
    yield
    if LATE_END:
        raise TimeoutError

def test_late(fresh):
    if times("late") < LATE_UNTIL:
        try:
            raise TimeoutError
        except TimeoutError as exc:
            raise RuntimeError("store is away") from exc

@pytest.mark.parametrize("number", range(WRONG))
def test_wrong(fresh, ending, number):
    assert times(f"wrong{number}") >= RIGHT_FROM, "a wrong answer"
"""


@pytest.fixture(autouse=True)
def _findable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


class Ran:
    def __init__(self, pytester: pytest.Pytester, where: str = "http", **settings: int) -> None:
        chosen = {"LATE_UNTIL": 0, "LATE_END": 0, "WRONG": 1, "RIGHT_FROM": 0} | settings
        directory = pytester.mkdir(where)
        names = "".join(f"{name} = {value}\n" for name, value in chosen.items())
        (directory / "test_it.py").write_text(names + TESTS)
        result = pytester.runpytest_subprocess("-p", "second_try", "-p", "no:cacheprovider", "-n", "1")
        self.outcomes, self.text, self.is_good = result.parseoutcomes(), result.stdout.str(), result.ret == 0


def test_a_test_that_was_late_once_passes_and_is_named(pytester: pytest.Pytester) -> None:
    ran = Ran(pytester, where="gate", LATE_UNTIL=2)
    assert (ran.outcomes, ran.is_good) == ({"passed": 2}, True)
    assert "ran out of time, and were tried once more" in ran.text


def test_a_wrong_answer_that_ends_late_is_wrong(pytester: pytest.Pytester) -> None:
    ran = Ran(pytester, where="gate", RIGHT_FROM=2, LATE_END=1)
    assert (ran.outcomes, ran.is_good) == ({"passed": 1, "failed": 1, "errors": 1}, False)


def test_a_test_that_is_late_twice_fails(pytester: pytest.Pytester) -> None:
    ran = Ran(pytester, LATE_UNTIL=3)
    assert (ran.outcomes, ran.is_good) == ({"passed": 1, "failed": 1}, False)


@pytest.mark.parametrize("where", ["domain", "ledger"])
def test_a_wrong_answer_about_stock_is_not_tried_again(pytester: pytest.Pytester, where: str) -> None:
    ran = Ran(pytester, where, RIGHT_FROM=2)
    assert (ran.outcomes, ran.is_good) == ({"passed": 1, "failed": 1}, False)
    assert "tried once more" not in ran.text


def test_a_test_with_other_processes_that_was_wrong_once_passes_and_is_told_whole(pytester: pytest.Pytester) -> None:
    ran = Ran(pytester, RIGHT_FROM=2)
    assert (ran.outcomes, ran.is_good) == ({"passed": 2}, True)
    assert "were wrong, and were tried once more (look into them)" in ran.text
    assert "AssertionError: a wrong answer" in ran.text


def test_a_test_that_is_wrong_twice_fails(pytester: pytest.Pytester) -> None:
    ran = Ran(pytester, RIGHT_FROM=3)
    assert (ran.outcomes, ran.is_good) == ({"passed": 1, "failed": 1}, False)


@pytest.mark.parametrize(("wrong", "is_good"), [(3, True), (4, False)])
def test_a_run_with_more_than_a_few_wrong_answers_has_failed(
    pytester: pytest.Pytester, wrong: int, is_good: bool
) -> None:
    ran = Ran(pytester, WRONG=wrong, RIGHT_FROM=2)
    assert (ran.outcomes, ran.is_good) == ({"passed": wrong + 1}, is_good)
    assert ("this run has failed" in ran.text) is not is_good
