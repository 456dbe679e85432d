"""Every family of faults that Holdfast must survive, and the tests that inject it.

`make faults SEEDS=n` runs all of these, and those that take a seed once for each of n seeds. A test is named by its
file, or by its file and function. `test_families.py` fails if a family has none, or one that pytest does not find.
"""

from typing import NamedTuple


class Family(NamedTuple):
    fault: str
    tests: tuple[str, ...]


FAMILIES = {
    1: Family(
        "API process dies in a burst",
        ("faults/test_server_killed.py", "faults/test_room_killed.py", "faults/test_redis_chaos.py"),
    ),
    2: Family(
        "Redis dies and restarts",
        ("faults/test_redis_faults.py::test_kill_9_of_valkey_in_a_burst_loses_nothing_acknowledged",),
    ),
    3: Family(
        "Redis freezes for seconds",
        (
            "faults/test_redis_faults.py::test_a_frozen_valkey_is_an_unknown_outcome_and_has_one_effect",
            "faults/test_redis_faults.py::test_a_frozen_valkey_once_found_out_is_told_of_at_once_and_a_thawed_one_sells_on",
        ),
    ),
    4: Family("a request task is cancelled", ("faults/test_callers_leave.py",)),
    5: Family("PostgreSQL dies before or after COMMIT", ("faults/test_postgres_killed.py",)),
    6: Family("PostgreSQL frozen, connections exhausted", ("faults/test_postgres_frozen.py",)),
    7: Family(
        "Redis comes back with less",
        (
            "faults/test_redis_faults.py::test_a_flush_in_the_middle_of_a_sale_and_it_sells_on_by_itself",
            "faults/test_redis_faults.py::test_a_valkey_that_comes_back_with_less_is_found_out_and_rebuilt",
            "faults/test_shard_faults.py::test_a_node_that_forgets_or_dies_in_the_middle_of_a_sale_takes_no_unit_with_it",
        ),
    ),
    8: Family(
        "a failover that loses writes; two primaries",
        (
            "faults/test_redis_faults.py::test_a_failover_that_loses_a_hold_denies_it_clearly_and_sells_no_unit_twice",
            "faults/test_redis_split_brain.py",
        ),
    ),
    9: Family("disk full", ("faults/test_disk_full.py", "faults/test_refusals_survive.py")),
    10: Family(
        "Redis memory full, eviction policy wrong, function library missing or old",
        ("gate/test_redis_gate.py", "gate/test_durability.py"),
    ),
    11: Family("worker dies around a charge", ("settlement/test_worker_killed.py",)),
    12: Family(
        "worker frozen, item reclaimed, then thaws",
        ("settlement/test_worker_killed.py::test_a_worker_that_slept_past_its_lease_is_fenced",),
    ),
    13: Family(
        "poison item",
        (
            "settlement/test_remote_settling.py::test_a_payment_over_another_amount_is_parked",
            "outbox/test_deliverer.py::test_what_fails_again_and_again_is_parked_and_those_behind_it_go_on",
        ),
    ),
    14: Family(
        "provider loses replies, is slow, fails, succeeds late",
        ("faults/test_selling_day.py", "settlement/test_remote_settling.py", "settlement/test_late_money.py"),
    ),
    15: Family(
        "webhook receiver down, slow, duplicated, forged",
        ("faults/test_webhooks_killed.py", "outbox/test_deliverer.py"),
    ),
    16: Family("clock steps on the API host", ("ledger/test_steady_clock.py",)),
    17: Family(
        "parallel requests with one key",
        (
            "http/test_http_crowd.py::test_fifty_parallel_requests_with_one_key_have_one_effect_and_identical_answers",
            "http/test_http_purchase.py::test_fifty_requests_at_once_under_one_key_are_one_purchase",
        ),
    ),
    18: Family(
        "overload at ten times the capacity", ("faults/test_overload.py", "simulation/test_overload_simulated.py")
    ),
    19: Family("slow headers, slow body, huge body, half-closed sockets", ("http/test_http_hostile_sockets.py",)),
    20: Family("token abuse", ("http/test_http_buyer_tokens.py", "room/test_tokens.py")),
    21: Family("proof of work reused, spliced, expired", ("room/test_challenge.py",)),
    22: Family(
        "abandoned queue heads, no-shows",
        (
            "room/test_line_advancer.py::test_abandoned_heads_do_not_hold_up_the_line_and_everything_is_sold",
            "http/test_http_room.py::test_nine_of_ten_do_not_come_and_everything_is_sold_all_the_same",
        ),
    ),
    23: Family(
        "other buyers' data, missing scopes, script in names",
        ("http/test_http_buyer_tokens.py", "http/test_http_service_keys.py", "http/test_pages.py"),
    ),
    24: Family("bad quantities, huge numbers, deep JSON", ("http/test_http_bad_input.py", "http/test_http_fuzz.py")),
    25: Family("rolling upgrade: old and new process side by side", ("faults/test_rolling_upgrade.py",)),
    26: Family(
        "a host is lost with a transaction open; an operator's table lock",
        ("faults/test_lost_host.py", "ledger/test_refused_writes.py"),
    ),
    27: Family(
        "part of a pool lost in Redis; Redis reconfigured at run time",
        ("gate/test_redis_manifest.py", "faults/test_redis_torn.py"),
    ),
    28: Family(
        "the ledger went back",
        (
            "faults/test_ledger_went_back.py",
            "ledger/test_mark.py",
            "ledger/test_restore.py",
            "outbox/test_relay.py",
            "settlement/test_unknown_charges.py",
            "gate/test_redis_went_back.py",
        ),
    ),
    29: Family("clients that do not read, and thousands of connections", ("faults/test_slow_readers.py",)),
    30: Family("a store is not up when a server starts", ("faults/test_late_stores.py",)),
    31: Family(
        "a provider or receiver drips, answers without end, explodes when decompressed",
        ("settlement/test_hostile_provider.py", "http/test_http_buyer_jwks.py", "outbox/test_deliverer.py"),
    ),
    33: Family(
        "the edge is down, its cache is old, its clock is off",
        (
            "edge/test_edge_nginx.py::test_sold_out_is_answered_at_the_edge_until_a_restock",
            "edge/test_edge_nginx.py::test_a_retry_of_a_lost_answer_finds_it_although_all_is_sold_meanwhile",
            "edge/test_edge_nginx.py::test_while_the_server_is_gone_people_see_a_calm_page_and_programs_a_problem",
            "edge/test_edge_nginx.py::test_a_wrong_clock_at_the_edge_changes_nothing",
            "edge/test_edge_forwarding.py::test_a_slow_server_decides_itself_instead_of_by_an_old_state",
            "edge/test_edge_worker.py::test_sold_out_is_answered_by_the_worker_until_a_restock",
            "edge/test_edge_worker.py::test_while_the_server_is_gone_the_worker_stays_calm",
        ),
    ),
    34: Family("a whole cell is lost", ("faults/test_cell_lost.py",)),
    35: Family(
        "writes fail while reads work",
        (
            "faults/test_disk_full.py",
            "faults/test_postgres_disk_full.py",
            "faults/test_readiness.py",
            "ledger/test_refused_writes.py",
        ),
    ),
    36: Family("hundreds of thousands of holds due at once", ("faults/test_mass_expiry.py", "gate/test_due_views.py")),
    37: Family(
        "clock steps on the database's or Redis's host",
        ("faults/test_clock_steps.py", "runtime/test_engine_clock.py"),
    ),
    38: Family(
        "the only worker dies; background work hangs",
        (
            "faults/test_readiness.py::test_a_server_names_the_worker_that_is_missing_and_sells_on",
            "ledger/test_heartbeat.py",
        ),
    ),
    39: Family(
        "the database file is moved or replaced; the lock file deleted",
        (
            "faults/test_readiness.py::test_no_hold_is_acknowledged_once_the_database_file_is_gone",
            "faults/test_readiness.py::test_a_database_file_that_is_put_back_is_used_again",
            "faults/test_readiness.py::test_deleting_the_lock_file_lets_no_second_server_in",
            "ledger/test_server_lock.py",
        ),
    ),
    32: Family(
        "Kafka broker, relay or consumer killed",
        (
            "faults/test_kafka_killed.py",
            "streams/test_kafka_relay.py::test_a_publisher_that_froze_cannot_publish_once_another_took_over",
            "streams/test_kafka_relay.py::test_while_no_broker_answers_events_wait_and_nothing_else_does",
            "streams/test_kafka_settlement.py",
        ),
    ),
    40: Family("one journal entry cannot be stored", ("gate/test_redis_poisoned.py",)),
    41: Family(
        "a Redis Cluster moves a slot; a slow network; an operator's table lock",
        (
            "faults/test_redis_torn.py::test_a_slot_is_moved_under_a_sale_without_a_refusal",
            "faults/test_slow_network.py",
            "faults/test_lost_host.py::test_an_operators_table_lock_is_refused_in_time_and_named",
        ),
    ),
    42: Family("the core or a front of a server dies", ("faults/test_fronts_killed.py",)),
}
