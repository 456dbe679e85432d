"""A payment provider that hangs for a while is in the report of the sale, with what buyers saw."""

import os
import signal
from pathlib import Path

import pytest
from http_calling import eventually
from http_sales import store_of
from http_serving import started
from settle_sandbox import running_sandbox

from holdfast.payments.guarded import FAILURES_MAX

BUYERS = [f"buyer-{number}" for number in range(FAILURES_MAX)]


@pytest.mark.slow
def test_a_frozen_provider_is_an_incident_with_its_beginning_its_end_and_who_waited(tmp_path: Path) -> None:
    with running_sandbox() as sandbox:
        settings = {"PAYMENT_SANDBOX_URL": sandbox.url, "PAYMENT_TIMEOUT_MS": "500"}
        with started(tmp_path, settings=settings) as server:
            store = store_of(server)
            store.open(payment="sandbox", checkout="instant", total_units=50)

            def orders() -> dict[str, int]:
                return {status: each["number"] for status, each in report()["orders"].items()}

            def report() -> dict[str, dict[str, dict[str, int]]]:
                found: dict[str, dict[str, dict[str, int]]] = server.command("report", store.sale_id)
                return found

            def provider() -> object:
                return server.client.get("/healthz/ready").json()["checks"].get("payment_sandbox", {}).get("ok")

            store.buy("ada")
            eventually(lambda: orders() == {"confirmed": 1}, within_s=60)
            eventually(lambda: provider() is True, within_s=60)
            os.kill(sandbox.pid, signal.SIGSTOP)
            try:
                for buyer_id in BUYERS:
                    store.buy(buyer_id)
                eventually(lambda: provider() is False, within_s=60)
                eventually(lambda: _outages(report()), within_s=60)
            finally:
                os.kill(sandbox.pid, signal.SIGCONT)
            eventually(lambda: orders() == {"confirmed": 1 + len(BUYERS)}, within_s=90)
            [outage] = _outages(report())
            assert outage["at"] < outage["ended_at"]
            assert "The payment provider sandbox did not answer." in outage["what"]
            assert f"({len(BUYERS)} payments waited)" in outage["what"]
            code, _, err = server.run("report", store.sale_id)
            assert code == 0, err
            assert outage["what"] in (tmp_path / f"{store.sale_id}-report.html").read_text()


def _outages(report: dict) -> list[dict]:  # type: ignore[type-arg]
    """A busy machine may have others."""
    return [one for one in report["incidents"] if one["kind"] == "outage" and "payment provider" in one["what"]]
