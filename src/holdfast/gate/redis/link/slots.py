"""The slot of a key in a Redis Cluster, as specified: CRC16 of the key, or of its hash tag."""

from binascii import crc_hqx

SLOTS = 16_384


def key_slot(key: bytes) -> int:
    _, opened, rest = key.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    return crc_hqx(tag if opened and closed and tag else key, 0) % SLOTS
