"""The conformance suite for engines: run it against your own gate. Needs pytest and pytest-asyncio.

Subclass `GateConformance` and provide a `harness` fixture, which opens your gate on an empty ledger:

    from holdfast.testing import GateConformance, GateHarness

    class TestMyGate(GateConformance):
        @pytest.fixture
        def harness(self, ...) -> GateHarness:
            return GateHarness(open_gate, clock, read, put)

- `open_gate()` opens a gate (`holdfast.gate.port.Gate`). A second one must see what the first has done.
- `clock` is the clock the gate decides by. It starts at `holdfast.testing.states.NOW` and moves when a test says so.
- `read(sku_id)` returns everything the ledger holds of a pool as a `LedgerSnapshot`. Its invariants are checked after
  every batch.
- `put(state)` stores a `State` before the first batch.

The tests are coroutines: run pytest with `asyncio_mode = "auto"`. Nothing else in Holdfast imports this package.
"""

import pytest

pytest.register_assert_rewrite("holdfast.testing.conformance", "holdfast.testing.snapshot")

from holdfast.testing.conformance import GateConformance  # noqa: E402 - rewritten assertions come first
from holdfast.testing.harness import GateHarness  # noqa: E402
from holdfast.testing.snapshot import LedgerSnapshot  # noqa: E402

__all__ = ["GateConformance", "GateHarness", "LedgerSnapshot"]
