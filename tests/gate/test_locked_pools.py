"""Which pools are named as locked, and for how long."""

from holdfast.gate.locked_pools import BATCH, REMEMBERED_S, RETRY, LockedPools


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_pool_is_named_until_its_lock_is_had() -> None:
    pools = LockedPools()
    assert pools.limits("a") is BATCH
    for name in ("b", "a"):
        pools.add(name)
    assert pools.names() == ["a", "b"]
    assert pools.limits("a") is RETRY
    pools.discard("a")
    assert (pools.names(), pools.limits("a")) == (["b"], BATCH)


def test_a_pool_that_nobody_tried_again_is_forgotten() -> None:
    clock = Clock()
    pools = LockedPools(clock)
    pools.add("old")
    clock.now = REMEMBERED_S
    assert pools.names() == []
    pools.add("new")
    assert pools.names() == ["new"]
    assert pools.limits("old") is BATCH
