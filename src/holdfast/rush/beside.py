"""A crowd beside something else, such as a demo: so many buyers on a sale that is there, over so many seconds.

It is a process of its own, so that whoever starts it need not wait, share an event loop or import any of this. It needs
two variables in its environment: HOLDFAST_BUYER_SECRET, with which it signs its buyers' tokens, and, if the sale is
paid from wallets or confirmed by the shop, HOLDFAST_SERVICE_KEY. Its buyers are `rush-…`, with wallets of their own. It
gives way to everything else on the machine, says nothing, checks nothing, and ends by itself when the last buyer has
gone: some time after `seconds`, because people wait in line, think and pay. SIGTERM ends it at once, with its children.
"""

from holdfast.bench.processes import python


def crowd_command(
    url: str, sale_id: str, *, users: int, seconds: float, scenario: str = "sneaker-drop", seed: int = 1
) -> list[str]:
    """The command to run. What is sold and how it is paid is the sale's; how people behave is the scenario's."""
    where = ["--url", url, "--sale", sale_id]
    who = ["--scenario", scenario, "--users", str(users), "--seconds", str(seconds), "--seed", str(seed)]
    return python("holdfast", "rush", *where, *who, "--no-checks", "--quiet", "--nice")
