from pathlib import Path

import pytest
from families import FAMILIES, NOT_BUILT

TESTS = Path(__file__).parents[1]
pytestmark = pytest.mark.daily


def test_every_family_has_tests_or_is_named_as_not_built() -> None:
    assert sorted([*FAMILIES, *NOT_BUILT]) == list(range(1, 43))


@pytest.mark.parametrize("name", sorted({test for family in FAMILIES.values() for test in family.tests}))
def test_every_test_of_a_family_exists(name: str) -> None:
    file, _, function = name.partition("::")
    assert f"def {function or 'test_'}" in (TESTS / file).read_text()
