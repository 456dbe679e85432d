"""What holds for every location of nginx's configuration, and for what the worker forwards; without nginx."""

import re
import subprocess
from pathlib import Path

from holdfast.edge.nginx_config import EdgeOptions, nginx_config

ROOT = Path(__file__).parents[2]
OPTIONS = EdgeOptions(listen="127.0.0.1:80", upstreams=("127.0.0.1:1",), keys={}, state=Path("/tmp/edge"))
# File descriptors of a worker, unless an administrator allows more.
DESCRIPTORS = 1024
# The worker as a module, with a Holdfast that says which headers it got.
ASK_THROUGH_WORKER = """
globalThis.fetch = async (_url, { headers }) => new Response([...headers.keys()].join(" "));
const { default: worker } = await import(process.argv[1]);
const request = new Request("https://shop.example/v1/orders", { headers: { traceparent: "00-1-2-01", accept: "*/*" } });
console.log(await (await worker.fetch(request, { ORIGIN: "http://origin" })).text());
"""


def test_the_worker_drops_traceparent() -> None:
    """A trusted proxy decides what is traced: docs/TRACES.md."""
    command = ["node", "--input-type=module", "--eval", ASK_THROUGH_WORKER, str(ROOT / "edge" / "worker.js")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    headers = ran.stdout.split()
    assert "accept" in headers
    assert "traceparent" not in headers


def test_every_location_of_nginx_drops_traceparent() -> None:
    # A location with a header of its own inherits none.
    for text in (nginx_config(OPTIONS), (ROOT / "deploy" / "nginx" / "holdfast.conf").read_text()):
        blocks = [block for block in re.split(r"[{}]", text) if "proxy_set_header" in block]
        assert blocks
        assert all('proxy_set_header traceparent "";' in block for block in blocks)


def test_cached_answers_that_are_kept_open_leave_clients_most_of_the_descriptors() -> None:
    """Anyone may ask for a thousand sales that do not exist, and each is a cached 404."""
    blocks = [block for block in re.split(r"[{}]", nginx_config(OPTIONS)) if "proxy_cache_key" in block]
    kept = [int(most) for block in blocks for most in re.findall(r"open_file_cache max=(\d+)", block)]
    assert kept
    assert sum(kept) < DESCRIPTORS / 3
