"""The columns that may have any value because they record nothing about a sale, each with the reason.

`holdfast verify` compares every other column with the events. A new column is compared unless it is listed here.
"""

from collections.abc import Mapping

from msgspec import Struct
from sqlalchemy import Table

from holdfast.ledger.tables.room import FOR_ADVANCER

_LEASE = "Which worker has it now, and until when."
_RETRY = "How often it was tried, when it is tried again and why it waits; what came of it is compared."


class FreeColumns(Struct, frozen=True):
    tables: Mapping[str, str]
    columns: Mapping[str, Mapping[str, str]]

    def is_free(self, table: Table, column: str | None = None) -> bool:
        return table.name in self.tables or column in self.columns.get(table.name, {})


FREE = FreeColumns(
    tables={
        "address_units": "Counts against a limit while a sale runs. An address is personal data, so no event has it.",
        "approvals": "Requests that wait for a second operator. What came of one is compared.",
        "arrivals": "On their way to become places, which are compared; the signed tickets are the record until then.",
        "cell_identity": "The name of the cell.",
        "cell_map": "How often the map of cells was changed.",
        "cell_sales": "Which cell a sale is in. The sale itself is compared there.",
        "cell_skus": "Which cell a SKU is in. Where it is sold is no record of what was sold.",
        "compatibility": "Which programs may use the tables.",
        "console_sessions": "Who is logged in to the console now.",
        "dead_letters": "Which parked items a topic was told of.",
        "contacts": "Where buyers want to be told. Personal data, so no event has it.",
        "deliveries": "Copies of events on their way to receivers, deleted when old. The events are the record.",
        "device_accounts": "Counts against a limit while people join. A device is personal data, so no event has it.",
        "drop_units": "Claims against the limit of a drop. They are compared with the reservations they are for.",
        "gate_slowness": "A measurement of each process, for the pace of the room.",
        "heartbeats": "Proof of life, written every second.",
        "incarnations": "Where histories of the ledger begin; compared with the mark, which is outside of the ledger.",
        "messages": "Messages to buyers and what came of them, deleted when old. The events are the record.",
        "operator_actions": "What operators did: append-only, and no record of a sale. Its effects are compared.",
        "operators": "Who may sign in to the console.",
        "parked_entries": "A list of work for a person.",
        "parked_messages": "As `parked_entries`.",
        "pool_counts": "Counters for metrics.",
        "pool_history": "As `pool_counts`, over time.",
        "pool_updates": "The counts that `pool.updated` had last, derived from the pools, which are compared.",
        "purchase_attempts": "Counts against a limit while a sale runs. What was granted is in the events.",
        "push_devices": "As `contacts`: the browsers that buyers get notifications in.",
        "quoted_prices": "What a reservation was to cost. Its order has the same in its event, and is compared.",
        "outages": "When something did not answer, as processes saw it: for the report.",
        "quotes": "Promises until they expire. What came of one is in the order's event.",
        "refusal_batches": "Copies of the refusals in the files of each server, so that one search finds them.",
        "revoked_buyers": "Whose tokens are refused for now. What operators did about it is in `operator_actions`.",
        "revoked_tokens": "As `revoked_buyers`.",
        "service_keys": "Credentials. Using one is what matters, and each use is in the log of the server.",
        "spent_challenges": "Solved challenges until they expire.",
        "streams": "How far events were published, and which worker does it now.",
        "traces": "Which trace a reservation's background work belongs to: for people who look for delays.",
        "webhooks": "Where to send events, and how far that has come. No record of a sale.",
    },
    columns={
        "pools": {
            "epoch": "A generation of the pool in Redis, which knows it too.",
            "journal_seq": "As `epoch`.",
            "decided_at": "How far the pool's clock is. A rebuild advances it too, and decides nothing.",
        },
        "orders": {"number": "To search by; what is shown is computed from the reservation's ID, which is compared."},
        "reservations": {"counted": "Whether it is in an index."},
        "refunds": dict.fromkeys(("attempts", "due_at", "reason", "history"), _RETRY)
        | dict.fromkeys(("leased_until", "fence"), _LEASE),
        "rooms": dict.fromkeys(FOR_ADVANCER, "The line advancer's lease, pace and count. Places have what happened.")
        | {"unpruned_before": "How far the pruner has come; hashes of what it deleted are compared."},
        "settlements": dict.fromkeys(("attempts", "due_at", "reason", "history"), _RETRY)
        | dict.fromkeys(("leased_until", "fence"), _LEASE),
    },
)
