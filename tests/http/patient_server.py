"""`holdfast` as it is, but on PostgreSQL it waits for the lock of a pool as long as SQLite does.

Tests that hold up a pool do several things meanwhile, for which the usual two seconds are too short on a busy machine.
"""

from msgspec import structs

from holdfast.gate import locked_pools

locked_pools.BATCH = structs.replace(locked_pools.BATCH, wait_ms=5_000)

if __name__ == "__main__":
    from holdfast.cli import main

    main()
