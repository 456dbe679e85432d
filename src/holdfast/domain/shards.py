"""A pool too hot for one core is split into shards: pools of their own, each with a part of the units.

An owner always comes to the same shard, so what is counted per owner (limits, hold budgets, keys) is counted in one
place. A reservation id carries the owner's mark, so that a move finds the shard from the id alone.
"""

from collections.abc import Iterable, Sequence
from zlib import crc32

from holdfast.domain.pool import Pool

MAX_SHARDS = 64

# Not allowed in a SKU id, so no shard has the name of a SKU.
_SEPARATOR = "/"
_MARK = slice(34, 36)
_MARKS = tuple(f"{number:02x}" for number in range(256))


def shard_name(sku_id: str, shard: int, shards: int) -> str:
    return f"{sku_id}{_SEPARATOR}{shard}of{shards}"


def shard_names(sku_id: str, shards: int) -> list[str]:
    return [shard_name(sku_id, shard, shards) for shard in range(shards)]


def is_shard(pool: str) -> bool:
    return _SEPARATOR in pool


def whole_of(pool: str) -> str:
    """The SKU a pool is of: its own, or the one it is a shard of."""
    return pool.partition(_SEPARATOR)[0]


def shard_number(pool: str) -> tuple[int, int]:
    """Which one, of how many."""
    number, _, shards = pool.partition(_SEPARATOR)[2].partition("of")
    return int(number), int(shards)


def mark_of(owner_id: str) -> str:
    """Two hexadecimal digits, the same for an owner wherever and whenever they are made."""
    return _MARKS[crc32(owner_id.encode()) & 0xFF]


def shard_of_owner(owner_id: str, shards: int) -> int:
    return (crc32(owner_id.encode()) & 0xFF) % shards


def shard_of(reservation_id: str, shards: int) -> int:
    """By the mark in the id; what is no reservation id is found in no shard, so any will do."""
    try:
        return int(reservation_id[_MARK], 16) % shards
    except ValueError:
        return 0


def spread(units: int, shards: int) -> list[int]:
    """As evenly as it goes, the first ones getting what is left over."""
    each, over = divmod(units, shards)
    return [each + (shard < over) for shard in range(shards)]


def whole_pool(sku_id: str, total: int, parts: Sequence[Pool]) -> Pool:
    """The shards as one pool of so many units.

    What is neither free nor sold in any shard counts as held: by a buyer, or on its way between shards, or in a shard
    that was not looked at. The shards may have been looked at one after the other; sold units stay sold, so only when
    all are sold does it say so.
    """
    sold = sum(part.sold for part in parts)
    free = min(_free(parts), max(total - sold, 0))
    active = sum(part.active_reservations for part in parts)
    ready = all(part.ready for part in parts)
    rules = parts[0].rules if parts else Pool(sku_id, 0).rules
    return Pool(sku_id, total, max(total - sold - free, 0), sold, active, ready, rules)


def _free(parts: Iterable[Pool]) -> int:
    return sum(part.available for part in parts)
