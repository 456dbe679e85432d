"""What the documentation tells people to type is run against real servers, page by page; `RUN_BY` says by which test,
and `NOT_RUN` why not.

Names of other people's machines and files are replaced by ones that are there; crowds are made smaller.
"""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult
from http_calling import eventually
from http_sales import store_of
from http_serving import SERVICE_KEY, Server, started
from pages import (
    BLOCK,
    COMMANDS,
    DOCS,
    PAGES,
    ROOT,
    blocks_of,
    filled,
    replace_all,
    run_block,
    run_page,
    shop_in,
    typed_on,
)
from settle_sandbox import running_sandbox
from standardwebhooks import Webhook

from databases import empty_postgres_database, new_postgres_database
from holdfast.client import Client
from holdfast.lab.load.engines import free_port
from holdfast.settings import load_settings
from valkeys import running_valkey


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with started(tmp_path_factory.mktemp("tutorial")) as running_:
        yield running_


def test_the_five_minutes_work_as_they_are_written(server: Server) -> None:
    blocks = [
        (kind, text)
        for skipped, kind, text in BLOCK.findall((DOCS / "tutorials" / "five-minutes.md").read_text())
        if not skipped
    ]
    blocks = [(kind, text) for kind, text in blocks if kind in COMMANDS]
    assert [kind for kind, _ in blocks] == ["sh", "python", "sh"]
    said = [run_block(kind, text, server) for kind, text in blocks]
    assert '"total_units":2' in said[0]
    assert "Bo gets none" in said[1]
    assert '"sold":2' in said[2]
    with Client(server.url, key=SERVICE_KEY) as client:
        assert client.available("poster").available == 0


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with shop_in(tmp_path_factory.mktemp("shop")) as running_:
        yield running_


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("README.md", 12), ("docs/SALES.md", 14)])
def test_a_page_for_buyers_and_sellers_works_as_it_is_written(shop: Server, name: str, least: int) -> None:
    # One unit per buyer, and each page begins with its own.
    said = run_page(ROOT / name, shop, {"ada": f"ada{least}"})
    assert "urn:holdfast:" not in said
    assert said.count("{") >= least
    with Client(shop.url, key=SERVICE_KEY) as client:
        assert client.available("demo-drop").sold >= 1


@pytest.mark.slow
def test_the_runbook_works_as_it_is_written(shop: Server) -> None:
    store = store_of(shop)
    store.open(payment="external", total_units=500, room={"mode": "fifo"})
    page = "".join(blocks_of(DOCS / "RUNBOOK.md", "sh")).replace("SALE_ID", store.sale_id)
    said = ""
    for line in page.splitlines():
        name, *words = shlex.split(line, comments=True)
        if name == "holdfast":
            code, out, err = shop.run(*words)
            # The doctor finds faults with a machine that runs tests.
            assert code == 0 or (words[0] == "doctor" and code == 1), (words, out, err)
            said += out
    assert said.count("PROVEN: ") >= 4
    assert "fifo, paused: nobody is called" in said
    assert store.show()["phase"] == "ended"
    calls = [line for line in page.splitlines() if line.startswith(("url=", "key=", "curl "))]
    assert '"status":"ready"' in run_block("sh", filled("\n".join(calls), shop), shop)


@pytest.mark.slow
def test_the_sandbox_does_what_its_page_says(shop: Server) -> None:
    with running_sandbox() as sandbox:
        said = run_page(DOCS / "PAYMENTS.md", shop, {"http://127.0.0.1:8081": sandbox.url})
        assert [entry["state"] for entry in sandbox.books().values()] == ["captured"]
    assert said.count('"state":"captured"') >= 3
    assert said.count('"lost_reply_silent":') == 4


@pytest.mark.slow
def test_the_python_client_does_what_its_page_says(shop: Server) -> None:
    # A pool that the other pages do not sell.
    first, second, third = (text.replace("sneaker", "boot") for text in blocks_of(DOCS / "CLIENTS.md", "python"))
    assert run_block("python", filled(first, shop), shop).strip() == "2"
    opened = f"client = Client({shop.url!r}, key={SERVICE_KEY!r})\n"
    taken = 'client.reserve("boot-42", owner_id="cy", quantity=498)\n'
    assert run_block("python", f"from holdfast.client import Client\n{opened}{taken}{second}", shop).strip() == "0"
    secret, now = "whsec_" + "c2VjcmV0" * 4, datetime.now(UTC)
    body = json.dumps({"id": "e1", "type": "order.confirmed", "source": "/v1", "subject": "ord_1", "data": {"n": 1},
                       "specversion": "1.0", "time": "2030-01-31T18:00:00.000Z"})  # fmt: skip
    headers = {"Webhook-Id": "m1", "Webhook-Timestamp": str(int(now.timestamp()))}
    headers["Webhook-Signature"] = Webhook(secret).sign("m1", now, body)
    sent = f"body, headers, secret = {body.encode()!r}, {headers!r}, {secret!r}\n"
    assert run_block("python", sent + third, shop).split(maxsplit=1)[0] == "order.confirmed"


def typed(page: str, server: Server, replaced: dict[str, str], *, but: str = r"$^") -> str:
    """Runs all commands of a page, except for lines that match `but`."""
    text = replace_all("".join(typed_on(page)), replaced)
    return run_block("sh", "".join(one for one in text.splitlines(keepends=True) if not re.search(but, one)), server)


@pytest.mark.slow
def test_archives_are_made_as_their_page_says(shop: Server) -> None:
    archive = shop.directory / "archive"
    assert "archive" in typed("ARCHIVE.md", shop, {"/mnt/archive": str(archive)}).lower()


@pytest.mark.slow
def test_the_audit_finds_a_refused_buyer_as_its_page_says(shop: Server) -> None:
    store = store_of(shop)
    store.open(payment="external", total_units=1)
    with store.buyer("ada") as ada, store.buyer("bo") as bo:
        assert bo.purchase().status_code == 201
        assert ada.purchase().status_code == 409
    eventually(lambda: "refused" in typed("AUDIT.md", shop, {"--sale drop": f"--sale {store.sale_id}"}))


@pytest.mark.slow
def test_a_backup_is_made_and_restored_as_its_page_says(tmp_path: Path, postgres_url: str) -> None:
    url, restored = new_postgres_database(postgres_url), empty_postgres_database(postgres_url)
    with shop_in(tmp_path, {"DATABASE_URL": url}) as server:
        places = {
            "/mnt/backups": str(tmp_path),
            "postgresql:///holdfast_restored holdfast": f"{restored} HOLDFAST_DATA={tmp_path}/restored holdfast",
        }
        said = typed("BACKUP.md", server, places, but=r"^(systemctl|createdb) ")
        assert server.run("verify", "--database-url", restored)[0] == 0
    assert said.count("PROVEN") >= 2


@pytest.mark.slow
def test_the_commands_do_what_their_page_says(tmp_path: Path) -> None:
    with shop_in(tmp_path) as server:
        store = store_of(server)
        store.open(payment="external")
        with store.buyer() as ada:
            bought = ada.purchase().json()
        with Client(server.url, key=SERVICE_KEY) as client:
            client.confirm(bought["reservation_id"])
        [order] = server.command("orders", "list")["data"]
        said = typed("CLI.md", server, {"ord_0192…": order["order_id"]}, but="-completion")
        assert "20/s (the sale says 50/s)" in said
        page = (server.directory / "drop-report.html").read_text()
    assert "Proof of conservation" in page
    assert (server.directory / "drop.parquet").exists()


def test_the_settings_of_cells_are_read_as_their_page_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    [listed, *_] = blocks_of(DOCS / "CELLS.md", "")
    [toml] = blocks_of(DOCS / "CELLS.md", "toml")
    monkeypatch.chdir(tmp_path)
    Path("holdfast.toml").write_text(toml)
    from_file = load_settings()
    Path("holdfast.toml").unlink()
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        monkeypatch.setenv(name, value)
    from_environment = load_settings()
    assert from_file.cells == from_environment.cells
    assert from_file.database_url == from_environment.database_url


def test_the_middleware_is_added_as_its_page_says() -> None:
    added: list[Any] = []

    class App:
        def add_middleware(self, kind: type, **options: Any) -> None:
            added.append(kind(self, **options))

    [text] = blocks_of(DOCS / "CONNECT.md", "python")
    yours: dict[str, Any] = {
        "app": App(),
        "application": lambda _environ, _start: [],
        "signed_in": lambda _headers: "ada",
    }
    exec(text, yours)
    assert [type(one).__name__ for one in (*added, yours["application"])] == ["RoomMiddleware", "WsgiRoomMiddleware"]


@pytest.mark.slow
def test_the_edge_is_configured_as_its_page_says(shop: Server) -> None:
    directory = shop.directory / "nginx"
    typed("EDGE.md", shop, {"/etc/nginx/holdfast": str(directory)}, but="^nginx ")
    assert (directory / "nginx.conf").exists()
    if nginx := shutil.which("nginx"):
        subprocess.run([nginx, "-t", "-c", directory / "nginx.conf"], check=True, timeout=60)


class _Login:
    def __call__(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        return AuthResult(success=(data.login, data.password) == (b"user", b"password"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Requiring AUTH while not requiring TLS:UserWarning")
def test_mail_is_switched_on_and_asked_for_as_its_page_says(tmp_path: Path) -> None:
    port = free_port()
    mail = Controller(
        object(), hostname="127.0.0.1", port=port, authenticator=_Login(), auth_require_tls=False, auth_required=True
    )
    mail.start()
    try:
        [switched_on] = blocks_of(DOCS / "MESSAGES.md", "sh")
        replaced = {
            "smtp://user:password@mail.example.com:587   #": f"smtp://user:password@127.0.0.1:{port}   #",
            # The doctor finds other faults with a machine that runs tests.
            "holdfast doctor ": "holdfast doctor --json > doctor.json || test $? = 1 ",
        }
        settings = {"SMTP_URL": f"smtp://user:password@127.0.0.1:{port}", "MAIL_FROM": "noreply@tidewater.example",
                    "PUBLIC_URL": "https://drops.tidewater.example"}  # fmt: skip
        with shop_in(tmp_path, settings) as server:
            run_block("sh", replace_all(switched_on, replaced), server)
            found = {one["name"]: one for one in json.loads((tmp_path / "doctor.json").read_text())["checks"]}
            assert found["mail"]["level"] == "ok", found["mail"]
            with store_of(server).buyer("ada") as ada:
                for method, path, body in requests_on("MESSAGES.md"):
                    answer = ada.client.request(method, path, content=body or None)
                    assert answer.is_success, (method, path, answer.text)
    finally:
        mail.stop()


def requests_on(page: str) -> Iterator[tuple[str, str, str]]:
    """Those that are written out; one with JavaScript in it is for browsers."""
    for text in blocks_of(DOCS / page, ""):
        for method, path, body in re.findall(r"\b(GET|PUT|POST|DELETE) (/v1/\S+)(?: (\{.*\}))?", text):
            if "()" not in body:
                yield method, path, body


@pytest.mark.slow
def test_plans_are_made_as_their_page_says(shop: Server) -> None:
    """With the figures of the documentation: measuring all of them takes a quarter of an hour."""
    for name in ("all.json", "room.json"):
        shutil.copy(DOCS / "benchmarks" / "figures.json", shop.directory / name)
    options = "--users 50000 --units 500"
    replaced = {
        "plan …": f"plan {options}",
        "--users 2400 --units 600 --seconds 60": "--users 120 --units 30 --seconds 2",
        # So small a crowd does not come as forecast.
        "--check-against rush.json": "--check-against rush.json || test $? = 1",
    }
    said = typed("PLAN.md", shop, replaced, but="^holdfast bench ")
    assert said.count("Bottleneck:") >= 4
    assert '"breaks_first"' in said
    assert (shop.directory / "plan.html").exists()


@pytest.mark.slow
def test_what_is_degraded_is_told_as_its_page_says(shop: Server) -> None:
    _, shown = (json.loads(text) for text in blocks_of(DOCS / "RATE_LIMITS.md", "json"))
    told = shop.client.get("/v1/features").json()
    assert shown.keys() == told.keys()
    assert shown["features"].keys() <= told["features"].keys()


@pytest.mark.slow
def test_redis_mode_is_set_up_as_its_page_says(tmp_path: Path, postgres_url: str) -> None:
    url, port = new_postgres_database(postgres_url), free_port()
    (tmp_path / "valkey").mkdir()
    with running_valkey(tmp_path / "valkey") as valkey:
        for line in blocks_of(DOCS / "REDIS.md", "")[0].splitlines():
            # Only a server that was started from a file can rewrite it.
            if line != "CONFIG REWRITE":
                assert valkey.command(*line.split()) == "OK"
        ready = f"curl -sf --retry 60 --retry-delay 1 --retry-connrefused http://127.0.0.1:{port}/healthz/ready"
        replaced = {
            "postgresql://user@host/holdfast": f"'{url}'",
            "redis://host:6379/0 ": f"{valkey.url} ",
            "holdfast doctor": "holdfast doctor || test $? = 1",
            "serve --workers 4 --no-background": f"serve --workers 2 --no-background --port {port} & served=$!",
            "holdfast worker": f"holdfast worker & worked=$!; {ready}; kill $served $worked; wait $served $worked",
        }
        with shop_in(tmp_path / "shop", {"DATABASE_URL": url, "REDIS_URL": valkey.url}) as server:
            said = typed("REDIS.md", server, replaced)
            shards = {one["sku_id"]: one["shards"] for one in server.command("pools", "check")["data"]}
            assert len(shards["on-sale"]) == 4
    assert '"status":"ready"' in said


@pytest.mark.slow
def test_a_crowd_is_let_loose_as_its_page_says(tmp_path: Path) -> None:
    """Without an edge, which needs nginx: tests/rush has it."""
    (tmp_path / "mine.toml").write_text(blocks_of(DOCS / "RUSH.md", "toml")[0])
    text = "".join(line for line in "".join(typed_on("RUSH.md")).splitlines(keepends=True) if " --edge " not in line)
    small = re.sub(r"^(holdfast rush[^#\n]*?) *(#.*)?$", r"\1 --users 60 --seconds 1", text, flags=re.MULTILINE)
    small = re.sub(r"^(?!.*--sale)(holdfast rush.*)$", r"\1 --units 6", small, flags=re.MULTILINE)
    with running_sandbox() as sandbox, shop_in(tmp_path, {"PAYMENT_SANDBOX_URL": sandbox.url}) as server:
        said = run_block("sh", filled(small.replace("HOLDFAST_BUYER_SECRET=…", ""), server), server)
    assert '"ok": true' in said or '"ok":true' in said
    assert (tmp_path / "rush.html").exists()


@pytest.mark.slow
def test_simulations_run_as_their_page_says(shop: Server) -> None:
    said = typed("SIMULATOR.md", shop, {"--seeds 1000": "--seeds 3", "--engine redis": "--engine redis --seeds 3"})
    assert said.count("3 runs from seed 0") == 2


@pytest.mark.slow
def test_operators_are_invited_and_buyers_revoked_as_their_page_says(shop: Server) -> None:
    said = typed("TEAM.md", shop, {})
    shown = blocks_of(DOCS / "TEAM.md", "console")[0].splitlines()
    assert said.startswith(shown[1] + "\n" + shown[2])
    assert "account stolen" in said


@pytest.mark.slow
def test_the_books_are_verified_as_their_page_says(shop: Server) -> None:
    copy = shop.directory / "copy.db"
    assert shop.run("backup", str(shop.directory / "for-verify.tar"))[0] == 0
    subprocess.run(["tar", "-xf", "for-verify.tar", "holdfast.db"], cwd=shop.directory, check=True)
    (shop.directory / "holdfast.db").rename(copy)
    with running_sandbox() as sandbox:
        replaced = {
            "sqlite:////backups/holdfast.db": f"sqlite:///{copy}",
            "http://127.0.0.1:8200": sandbox.url,
            "/mnt/elsewhere/checkpoints.jsonl": str(shop.directory / "data" / "checkpoints.jsonl"),
        }
        said = typed("VERIFY.md", shop, replaced)
    assert said.count("PROVEN") == 5


@pytest.mark.slow
def test_webhooks_are_received_as_their_page_says(tmp_path: Path) -> None:
    port = str(free_port())
    with shop_in(tmp_path, {"WEBHOOK_PRIVATE": "1"}) as server:
        adds, listed = typed_on("WEBHOOKS.md")
        said = run_block("sh", adds.replace("9000", port), server)
        [secret], [webhook] = re.findall(r"whsec_\S+", said), server.command("webhooks", "list")["data"]
        [receives] = blocks_of(DOCS / "WEBHOOKS.md", "python")
        receiver = subprocess.Popen(
            [*COMMANDS["python"], receives.replace("9000", port)],
            env={"SECRET": secret},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            with Client(server.url, key=SERVICE_KEY) as client:
                client.confirm(client.reserve("demo", owner_id="ada", quantity=1).reservation_id)
            assert receiver.stdout is not None
            got = "".join(receiver.stdout.readline() for _ in range(2))
        finally:
            receiver.kill()
            receiver.communicate()
        shown = blocks_of(DOCS / "WEBHOOKS.md", "")[0]
        assert _without_ids(got) == _without_ids(shown)
        for one in listed.splitlines()[0].removeprefix("holdfast webhooks ").split(" | "):
            words = one.replace("WEBHOOK_ID", webhook["webhook_id"]).replace("TIME", "2030-01-01T00:00:00Z")
            assert server.run("webhooks", *shlex.split(words))[0] == 0, one


def _without_ids(text: str) -> str:
    return re.sub(r"(dlv|rsv)_\w+", r"\1", text)


RUN_BY: dict[str, Callable[..., None]] = {
    "ARCHIVE.md": test_archives_are_made_as_their_page_says,
    "AUDIT.md": test_the_audit_finds_a_refused_buyer_as_its_page_says,
    "BACKUP.md": test_a_backup_is_made_and_restored_as_its_page_says,
    "CELLS.md": test_the_settings_of_cells_are_read_as_their_page_says,
    "CLI.md": test_the_commands_do_what_their_page_says,
    "CLIENTS.md": test_the_python_client_does_what_its_page_says,
    "CONNECT.md": test_the_middleware_is_added_as_its_page_says,
    "EDGE.md": test_the_edge_is_configured_as_its_page_says,
    "MESSAGES.md": test_mail_is_switched_on_and_asked_for_as_its_page_says,
    "PAYMENTS.md": test_the_sandbox_does_what_its_page_says,
    "PLAN.md": test_plans_are_made_as_their_page_says,
    "RATE_LIMITS.md": test_what_is_degraded_is_told_as_its_page_says,
    "README.md": test_a_page_for_buyers_and_sellers_works_as_it_is_written,
    "REDIS.md": test_redis_mode_is_set_up_as_its_page_says,
    "RUNBOOK.md": test_the_runbook_works_as_it_is_written,
    "RUSH.md": test_a_crowd_is_let_loose_as_its_page_says,
    "SALES.md": test_a_page_for_buyers_and_sellers_works_as_it_is_written,
    "SIMULATOR.md": test_simulations_run_as_their_page_says,
    "TEAM.md": test_operators_are_invited_and_buyers_revoked_as_their_page_says,
    "VERIFY.md": test_the_books_are_verified_as_their_page_says,
    "WEBHOOKS.md": test_webhooks_are_received_as_their_page_says,
    "five-minutes.md": test_the_five_minutes_work_as_they_are_written,
}
NOT_RUN = {
    "ARCHITECTURE.md": "a diagram",
    "DEPLOY.md": "installs packages, users and services as root; tests/deploy/test_deploy_files.py starts a server "
    "with the settings that it writes, and checks the files that it copies",
    "EMBED.md": "for browsers: tests/browser/test_store_embedding.py opens this page's example",
    "LOTTERY.md": "tests/domain/test_lottery.py runs this page's script, tests/cli/test_cli_lottery.py the commands",
    "STREAMS.md": "needs a Kafka broker; tests/streams/test_kafka_server.py starts such a server",
    "TRACES.md": "needs an installed wheel and a collector; tests/http/test_traces.py has one",
}


def test_every_page_with_snippets_is_run_or_says_why_not() -> None:
    with_snippets = {page.name for page in PAGES if BLOCK.search(page.read_text())}
    assert RUN_BY.keys() | NOT_RUN.keys() == with_snippets
    assert not RUN_BY.keys() & NOT_RUN.keys()
    for path in re.findall(r"tests/[\w/]+(?:\.py)?", "".join(NOT_RUN.values())):
        assert (ROOT / path).exists(), path
