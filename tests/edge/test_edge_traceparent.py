"""A trusted proxy decides what is traced (docs/TRACES.md), so ours pass nobody's `traceparent` on."""

import re
import subprocess
from pathlib import Path

from holdfast.edge.nginx_config import EdgeOptions, nginx_config

ROOT = Path(__file__).parents[2]
# The worker as a module, with a Holdfast that says which headers it got.
ASK_THROUGH_WORKER = """
globalThis.fetch = async (_url, { headers }) => new Response([...headers.keys()].join(" "));
const { default: worker } = await import(process.argv[1]);
const request = new Request("https://shop.example/v1/orders", { headers: { traceparent: "00-1-2-01", accept: "*/*" } });
console.log(await (await worker.fetch(request, { ORIGIN: "http://origin" })).text());
"""


def test_the_worker_drops_it() -> None:
    command = ["node", "--input-type=module", "--eval", ASK_THROUGH_WORKER, str(ROOT / "edge" / "worker.js")]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    headers = ran.stdout.split()
    assert "accept" in headers
    assert "traceparent" not in headers


def test_every_location_of_nginx_drops_it() -> None:
    options = EdgeOptions(listen="127.0.0.1:80", upstreams=("127.0.0.1:1",), keys={}, state=Path("/tmp/edge"))
    # A location with a header of its own inherits none.
    for text in (nginx_config(options), (ROOT / "deploy" / "nginx" / "holdfast.conf").read_text()):
        blocks = [block for block in re.split(r"[{}]", text) if "proxy_set_header" in block]
        assert blocks
        assert all('proxy_set_header traceparent "";' in block for block in blocks)
