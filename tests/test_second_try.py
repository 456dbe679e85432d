"""The one rule by which a test may be tried again."""

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

TESTS = """
import pathlib
import pytest

seen = pathlib.Path(__file__).with_name("seen")

def times():
    seen.write_text(seen.read_text() + "." if seen.exists() else ".")
    return len(seen.read_text())

@pytest.fixture
def fresh(tmp_path):
    assert not list(tmp_path.iterdir())
    (tmp_path / "used").touch()

def test_once(fresh):
    if times() < LATE_UNTIL:
        try:
            raise TimeoutError
        except TimeoutError as exc:
            raise RuntimeError("store is away") from exc

def test_wrong():
    assert WRONG is False
"""


@pytest.fixture(autouse=True)
def _findable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))


def ran(pytester: pytest.Pytester, *, late_until: int, wrong: bool) -> tuple[dict[str, int], str]:
    pytester.makepyfile(f"LATE_UNTIL, WRONG = {late_until}, {wrong}\n{TESTS}")
    result = pytester.runpytest_subprocess("-p", "second_try", "-p", "no:cacheprovider", "-n", "1")
    return result.parseoutcomes(), result.stdout.str()


def test_a_test_that_was_late_once_passes_and_is_named(pytester: pytest.Pytester) -> None:
    outcomes, text = ran(pytester, late_until=2, wrong=False)
    assert outcomes == {"passed": 2}
    assert "tried once more" in text


def test_a_test_that_is_late_twice_fails(pytester: pytest.Pytester) -> None:
    outcomes, _ = ran(pytester, late_until=3, wrong=False)
    assert outcomes == {"passed": 1, "failed": 1}


def test_a_wrong_answer_is_not_tried_again(pytester: pytest.Pytester) -> None:
    outcomes, text = ran(pytester, late_until=0, wrong=True)
    assert outcomes == {"passed": 1, "failed": 1}
    assert "tried once more" not in text
