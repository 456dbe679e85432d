"""Where a key lies in a Cluster: as redis-py reckons it, and with it everyone else."""

import redis.crc
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.gate.redis.link.slots import SLOTS, key_slot


@given(st.one_of(st.binary(max_size=40), st.lists(st.sampled_from([b"{", b"}", b"a", b"hf:"])).map(b"".join)))
@example(b"hf:{sku}:pool")
@example(b"{}a")
@example(b"{{a}}")
@example(b"a}b{c}")
def test_a_key_is_in_the_slot_that_redis_py_says(key: bytes) -> None:
    assert key_slot(key) == redis.crc.key_slot(key)


def test_there_are_as_many_slots_as_redis_py_says() -> None:
    assert redis.crc.REDIS_CLUSTER_HASH_SLOTS == SLOTS
