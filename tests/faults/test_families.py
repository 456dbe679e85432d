from pathlib import Path

import pytest
from families import FAMILIES

TESTS = Path(__file__).parents[1]
# What must survive is counted from 1 to 42, without gaps.
NUMBERS = range(1, 43)
pytestmark = pytest.mark.daily


@pytest.mark.parametrize("number", NUMBERS)
def test_every_family_has_tests(number: int) -> None:
    assert number in FAMILIES, f"no test injects the faults of family {number}: name one in families.py"
    assert FAMILIES[number].tests, f"no test injects {FAMILIES[number].fault}"


def test_there_are_no_other_families() -> None:
    assert sorted(FAMILIES) == [*NUMBERS]


@pytest.mark.parametrize("name", sorted({test for family in FAMILIES.values() for test in family.tests}))
def test_every_test_of_a_family_exists(name: str) -> None:
    file, _, function = name.partition("::")
    assert f"def {function}(" in (TESTS / file).read_text() if function else "def test_" in (TESTS / file).read_text()
