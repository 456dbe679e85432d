"""The TypeScript client compiles, passes its own tests, and the contract suite against a real server."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from contract_suite import FILE, SCENARIOS
from http_serving import BUYER_SECRET, SERVICE_KEY, Server

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


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package in a place of its own, with what it needs to be built."""
    directory = tmp_path_factory.mktemp("typescript") / "package"
    shutil.copytree(PACKAGE, directory, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (directory / "src" / "use.ts").write_text(USE)
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


def run(directory: Path, *command: str, **environment: str) -> str:
    ran = subprocess.run(
        command, cwd=directory, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
