"""How many units a pool or a reservation may have, and how long a hold may last."""

MAX_TOTAL_UNITS = 1_000_000_000
# How many due reservations a batch returns at most. However many are due, a batch takes no longer than this takes: some
# 20 ms. A full batch of attempts for several units each needs no more; beyond it, a retry finds the next portion.
DUE_RETURNED_MAX = 2_000
MAX_QUANTITY = 1_000_000
MIN_TTL_MS = 1_000
DEFAULT_TTL_MS = 300_000
# Half an hour in total is long enough for any checkout. Without a cap one buyer could extend forever and keep stock
# from everyone else.
MAX_HOLD_S = 1_800
MAX_HOLD_MS = MAX_HOLD_S * 1_000
