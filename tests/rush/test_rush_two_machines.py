"""Two machines, as network namespaces joined by a cable: the server on one, the edge and the crowd on the other.

nftables loses packets on the cable, and cuts it. All traffic stays between the two.
"""

import json
import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from shutil import which

import pytest

from holdfast.edge.nginx_config import EdgeOptions, nginx_config
from holdfast.lab.load.processes import Process, clean_environment, python, running
from holdfast.room.tokens import edge_keys
from holdfast.runtime.signing import SigningKey

USERS, UNITS = 250, 40
SHOP, CROWD = "10.231.77.1", "10.231.77.2"
PORT = 8000
TOOLS = ("ip", "nft", "nginx")
# Packets that the cut cable must have swallowed before it is mended.
CUT_PACKETS = 40
LIMIT_S = 150.0
# Every 25th packet, that is 4 %.
LOSE = "numgen random mod 25 == 0 counter drop"
CUT = "counter drop"
SCENARIO = """
name = "Over a bad cable"
[sale]
checkout = "cart"
payment = "wallet"
hold_seconds = 4
opens_after_seconds = 1
[sale.room]
mode = "fifo"
pass_seconds = 20
[arrival]
over_seconds = 4
[crowd]
look_first = 0.5
double_clicks = 0.1
lost_replies = 0.1
refreshes = 0.1
think_seconds = 0.2
patience_seconds = 5
[bots]
share = 0.05
kinds = ["forged", "many_accounts"]
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.geteuid() != 0 or any(which(tool) is None for tool in TOOLS),
        reason=f"two machines need root and {', '.join(TOOLS)}: apt-get install iproute2 nftables nginx",
    ),
]


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Machine:
    name: str

    def command(self, *command: str) -> list[str]:
        return ["ip", "netns", "exec", self.name, *command]

    def run(self, *command: str) -> str:
        return run(*self.command(*command))

    def rule(self, rule: str) -> None:
        """For what arrives by the cable: the other direction suffers, too, as TCP needs both."""
        self.run("nft", "flush", "chain", "inet", "cable", "arriving")
        if rule:
            self.run("nft", "add", "rule", "inet", "cable", "arriving", "iifname", "cable", *rule.split())

    @property
    def dropped(self) -> int:
        listed = json.loads(self.run("nft", "-j", "list", "chain", "inet", "cable", "arriving"))
        parts = [part for item in listed["nftables"] for part in item.get("rule", {}).get("expr", [])]
        return sum(int(part["counter"]["packets"]) for part in parts if "counter" in part)


@contextmanager
def two_machines() -> Iterator[tuple[Machine, Machine]]:
    tag = secrets.token_hex(3)
    machines = Machine(f"hf-shop-{tag}"), Machine(f"hf-crowd-{tag}")
    with ExitStack() as stack:
        for machine in machines:
            run("ip", "netns", "add", machine.name)
            stack.callback(run, "ip", "netns", "del", machine.name)
        shop, crowd = machines
        run("ip", "-n", shop.name, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", crowd.name)
        for machine, address in ((shop, SHOP), (crowd, CROWD)):
            run("ip", "-n", machine.name, "address", "add", f"{address}/30", "dev", "cable")
            for device in ("lo", "cable"):
                run("ip", "-n", machine.name, "link", "set", device, "up")
            machine.run("nft", "add", "table", "inet", "cable")
            hook = "{ type filter hook input priority 0; }"
            machine.run("nft", "add", "chain", "inet", "cable", "arriving", hook)
        yield machines


def await_true(holds: Callable[[], bool], process: Process | None = None) -> None:
    until = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < until
        if process is not None:
            process.check_alive()
        time.sleep(0.05)


@contextmanager
def shop_and_edge(shop: Machine, crowd: Machine, directory: Path) -> Iterator[dict[str, str]]:
    """Yields what the crowd must know: keys of the server."""
    key = SigningKey("rush", secrets.token_hex(20))
    known = {"HOLDFAST_SERVICE_KEY": "hf_" + secrets.token_hex(16), "HOLDFAST_BUYER_SECRET": secrets.token_hex(16)}
    environment = clean_environment(
        **known,
        HOLDFAST_SIGNING_KEY=f"{key.key_id}:{key.secret}",
        # The whole crowd comes from one address.
        HOLDFAST_RATE_PER_ADDRESS="0",
        HOLDFAST_PLACES_PER_ADDRESS="0",
    )
    serve = python("holdfast", "serve", "--host", SHOP, "--port", str(PORT), "--data", str(directory / "data"))
    edge = EdgeOptions(
        listen=f"127.0.0.1:{PORT}", upstreams=(f"{SHOP}:{PORT}",), keys=edge_keys([key]), state=directory
    )
    (directory / "edge.conf").write_text(nginx_config(edge))
    nginx = crowd.command("nginx", "-c", str(directory / "edge.conf"), "-g", "daemon off;")
    with running("server", shop.command(*serve), directory, environment) as server:
        await_true(lambda: "is listening" in (directory / "server.log").read_text(), server)
        with running("edge", nginx, directory) as process:
            await_true((directory / "nginx.pid").exists, process)
            yield known


@pytest.fixture
def directory() -> Iterator[Path]:
    """Not pytest's own: nginx's workers are another user, who may not enter it."""
    with tempfile.TemporaryDirectory(prefix="holdfast-cable-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


def test_a_rush_passes_while_packets_are_lost_and_after_the_cable_was_cut(directory: Path) -> None:
    (directory / "cable.toml").write_text(SCENARIO)
    with two_machines() as (shop, crowd), shop_and_edge(shop, crowd, directory) as known:
        command = python("holdfast", "rush", "--url", f"http://127.0.0.1:{PORT}", "--edge", "--json")
        command += ["--scenario", str(directory / "cable.toml"), "--users", str(USERS), "--units", str(UNITS)]
        for machine in (shop, crowd):
            machine.rule(LOSE)
        with running("rush", crowd.command(*command), directory, clean_environment(**known)) as rush:
            log = directory / "rush.log"
            await_true(lambda: " s  rush; " in log.read_text(), rush)
            assert shop.dropped + crowd.dropped > 0
            shop.rule(CUT)
            await_true(lambda: shop.dropped >= CUT_PACKETS, rush)
            shop.rule(LOSE)
            await_true(lambda: log.read_text().endswith("}\n"))
        text = log.read_text()
        result = json.loads(text[text.index("{") :])
        assert shop.dropped + crowd.dropped > 0
    failed = {check["name"]: check["examples"] for check in result["checks"] if not check["ok"]}
    assert failed == {}
    figures = result["figures"]
    assert figures["sold"] == UNITS
    assert sum(figures["endings"].values()) == USERS
    proven = subprocess.run(
        python("holdfast", "verify", "--data", str(directory / "data"), "--json"),
        env=clean_environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert json.loads(proven.stdout)["ok"] is True
