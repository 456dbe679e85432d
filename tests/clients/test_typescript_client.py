"""The TypeScript client compiles, passes its own tests, and the contract suite against a real server."""

import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from contract_suite import FILE, SCENARIOS
from http_serving import BUYER_SECRET, SERVICE_KEY, Server, started
from http_tokens import buyer_token
from playwright.sync_api import sync_playwright

pytest_plugins = ("http_fixtures",)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("npm") is None, reason="needs node and npm"),
]

PACKAGE = FILE.parent / "typescript"
USE = """
import { Client, isProblem, type Reservation } from "./index.js";
export async function buy(client: Client): Promise<Reservation | null> {
  try {
    const held = await client.reserve("sku", { owner_id: "ada", quantity: 1 });
    for await (const one of client.iterReservations({ sku_id: "sku", status: "active" })) one.expires_at.slice(0, 10);
    const paid = await client.confirm(held.reservation_id);
    return paid.status === "confirmed" ? held : null;
  } catch (error) {
    if (isProblem(error, "sold_out")) return null;
    throw error;
  }
}
// @ts-expect-error: a quantity is a number
export const wrong = (client: Client) => client.reserve("sku", { owner_id: "ada", quantity: "1" });
"""

DOCUMENTED = FILE.parents[1] / "docs" / "CLIENTS.md"
OURS = ('"holdfast-client"', '"./index.js"')
PAGE = """<!doctype html><meta charset="utf-8"><title>Shop</title><script type="module">
import { Client, Problem } from "./dist/index.js";
window.buy = async (url, key) => {
  const client = new Client(url, { key });
  const { has_more } = await client.listOrders();
  try {
    await client.purchase("nothing", { quantity: 1 });
  } catch (error) {
    if (error instanceof Problem) return [has_more, error.reason, error.status];
    throw error;
  }
};
</script>"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package in a place of its own, with what it needs to be built."""
    directory = tmp_path_factory.mktemp("typescript") / "package"
    shutil.copytree(PACKAGE, directory, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (directory / "src" / "use.ts").write_text(USE)
    [on_the_page] = re.findall(r"^```typescript\n(.*?)^```", DOCUMENTED.read_text(), re.MULTILINE | re.DOTALL)
    (directory / "src" / "page.ts").write_text(f"declare const key: string;\n{on_the_page.replace(*OURS)}")
    run(directory, "npm", "ci", "--no-fund", "--no-audit", "--ignore-scripts")
    run(directory, "npx", "tsc")
    return directory


def test_it_passes_its_own_tests_and_needs_nothing_else(package: Path) -> None:
    assert "dependencies" not in json.loads((package / "package.json").read_text())
    assert "# fail 0" in run(package, "node", "--test", "test/client.test.mjs")


def test_it_passes_the_contract_suite(package: Path, embedded: Server) -> None:
    environment = {
        "HOLDFAST_URL": embedded.url, "HOLDFAST_SERVICE_KEY": SERVICE_KEY, "HOLDFAST_BUYER_SECRET": BUYER_SECRET,
        "HOLDFAST_CONTRACT": str(FILE),
    }  # fmt: skip
    said = run(package, "node", "--test", "test/contract.test.mjs", **environment)
    assert f"# pass {len(SCENARIOS)}" in said
    assert "# fail 0" in said


def test_openapi_typescript_makes_types_that_compile(package: Path, embedded: Server) -> None:
    (package / "openapi.json").write_text(embedded.client.get("/openapi.json").text)
    run(package, "npx", "openapi-typescript", "openapi.json", "--output", "generated.ts")
    assert '"sales.create"' in (package / "generated.ts").read_text()
    run(package, "npx", "tsc", "--noEmit", "--strict", "generated.ts")


def test_it_runs_in_a_browser_on_another_origin(package: Path, tmp_path: Path) -> None:
    (package / "page.html").write_text(PAGE)
    with (
        serving(package) as origin,
        started(tmp_path, settings={"ALLOWED_ORIGINS": origin}) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{origin}/page.html")
        told = page.evaluate("([url, key]) => window.buy(url, key)", [server.url, buyer_token("ada")])
        browser.close()
    assert told == [False, "sale_not_found", 404]


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextmanager
def serving(directory: Path) -> Iterator[str]:
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(directory))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def run(directory: Path, *command: str, **environment: str) -> str:
    ran = subprocess.run(
        command, cwd=directory, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
