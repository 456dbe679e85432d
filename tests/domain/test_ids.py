"""Ids: what names a pool and what names a reservation."""

import pytest

from holdfast.domain.stock.pool import is_sku_id
from holdfast.domain.stock.reservation import new_reservation_id, sku_of


@pytest.mark.parametrize("sku_id", ["a", "A-1", "drop:2024.winter~x_y", "9" * 100, "a_b"])
def test_a_reservation_id_names_its_pool(sku_id: str) -> None:
    assert is_sku_id(sku_id)
    assert sku_of(new_reservation_id(sku_id, "ada")) == sku_id


def test_reservation_ids_sort_by_time_and_never_repeat() -> None:
    made = [new_reservation_id("sku", "ada") for _ in range(1_000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


@pytest.mark.parametrize("text", ["", "rsv_", "rsv_abc", "x" * 60, "rsv_" + "0" * 32, "rsv_" + "0" * 32 + "_"])
def test_text_that_is_no_reservation_id_names_no_pool(text: str) -> None:
    assert sku_of(text) is None


@pytest.mark.parametrize("text", ["", "-a", "a b", "a/b", "a\n", "ü", "a" * 101, "a%", "٣"])
def test_text_that_needs_escaping_is_no_sku_id(text: str) -> None:
    assert not is_sku_id(text)
