"""A pool that is too hot for one core is split into shards: separate pools, each with a part of the units.

An owner always maps to the same shard, so everything that is counted per owner (limits, hold budgets, keys) is in one
place. A reservation ID contains the owner's mark, so that a move finds the shard from the ID alone.
"""

from collections.abc import Iterable, Sequence
from zlib import crc32

from holdfast.domain.stock.pool import Pool

MAX_SHARDS = 64

# Not allowed in a SKU ID, so a shard's name is never a SKU's.
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
    """The SKU of a pool: its own name, or the name of the pool it is a shard of."""
    return pool.partition(_SEPARATOR)[0]


def shard_number(pool: str) -> tuple[int, int]:
    """The index of a shard, and the number of shards."""
    number, _, shards = pool.partition(_SEPARATOR)[2].partition("of")
    return int(number), int(shards)


def mark_of(owner_id: str) -> str:
    """Two hexadecimal digits that only depend on the owner."""
    return _MARKS[crc32(owner_id.encode()) & 0xFF]


def shard_of_owner(owner_id: str, shards: int) -> int:
    return (crc32(owner_id.encode()) & 0xFF) % shards


def shard_of(reservation_id: str, shards: int) -> int:
    """By the mark in the ID. Anything that is not a reservation ID is in no shard, so any shard will do."""
    try:
        return int(reservation_id[_MARK], 16) % shards
    except ValueError:
        return 0


def spread(units: int, shards: int) -> list[int]:
    """Distribute units evenly; the first shards get the remainder."""
    each, over = divmod(units, shards)
    return [each + (shard < over) for shard in range(shards)]


def whole_pool(sku_id: str, total: int, parts: Sequence[Pool]) -> Pool:
    """The shards combined into one pool of `total` units.

    Units that are neither free nor sold in any shard count as held: by a buyer, in transfer between shards, or in a
    shard that was not read. The shards may have been read one after the other. Sold units stay sold, so the pool only
    counts as sold out once all of them are sold.
    """
    sold = sum(part.sold for part in parts)
    free = min(_free(parts), max(total - sold, 0))
    active = sum(part.active_reservations for part in parts)
    ready = all(part.ready for part in parts)
    rules = parts[0].rules if parts else Pool(sku_id, 0).rules
    return Pool(sku_id, total, max(total - sold - free, 0), sold, active, ready, rules)


def _free(parts: Iterable[Pool]) -> int:
    return sum(part.available for part in parts)
