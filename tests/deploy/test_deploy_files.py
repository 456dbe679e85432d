"""The files of deploy/: each is checked by the tool that reads it, if that can run, and names only what exists."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from http_calling import eventually
from http_serving import started

from holdfast.cli.app import COMMANDS
from holdfast.lab.load.engines import free_port
from holdfast.settings import Settings

pytest_plugins = ("http_fixtures",)

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
MANIFESTS = sorted(path for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml")
COMPOSE = [DEPLOY / "compose" / name for name in ("embedded.yml", "full.yml")]
UNITS = sorted((DEPLOY / "systemd").iterdir())
# Of the Caddyfile, not of Holdfast.
NOT_SETTINGS = {"HOLDFAST_HOST", "HOLDFAST_UPSTREAMS"}


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"NOT CHECKED: {name} is not installed here")
    return found


def run(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def texts() -> Iterator[str]:
    for path in (*DEPLOY.rglob("*"), ROOT / "docs/DEPLOY.md"):
        if path.is_file():
            yield path.read_text()


def test_every_setting_that_is_named_exists() -> None:
    known = {f"HOLDFAST_{name.upper()}" for name in Settings.model_fields} | NOT_SETTINGS
    for text in texts():
        assert set(re.findall(r"\bHOLDFAST_[A-Z_]*[A-Z]\b", text)) <= known


def test_every_command_that_is_run_exists() -> None:
    for text in texts():
        for command in re.findall(r"(?:bin/holdfast|ExecStart=\S*holdfast) ([a-z]+)", text):
            assert command in COMMANDS
    for path in (*MANIFESTS, *COMPOSE):
        for words in re.findall(r'(?:args|command): \["([a-z]+)"', path.read_text()):
            assert words in COMMANDS or words in ("valkey-server", "sleep")


def test_no_secret_is_in_any_file() -> None:
    for text in texts():
        assert not re.search(r"hf_[A-Za-z0-9_-]{16}|sk_live|BEGIN [A-Z ]*PRIVATE KEY", text)


def test_manifests_keep_to_the_schemas_of_kubernetes() -> None:
    run(sys.executable, "-m", "kubernetes_validate", "--strict", *map(str, MANIFESTS))


def test_every_pod_is_unprivileged_with_a_read_only_root_and_limited_memory() -> None:
    pods = [one for path in MANIFESTS for one in yaml.safe_load_all(path.read_text()) if "template" in one["spec"]]
    assert len(pods) == 3
    for pod in (one["spec"]["template"]["spec"] for one in pods):
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]


def test_kustomize_builds_every_manifest() -> None:
    listed = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())["resources"]
    assert sorted(listed) == [path.name for path in MANIFESTS]


@pytest.mark.parametrize("file", COMPOSE, ids=lambda path: path.name)
def test_compose_files_are_hardened_and_mount_only_what_there_is(file: Path) -> None:
    content: dict[str, Any] = yaml.safe_load(file.read_text())
    for name, service in content["services"].items():
        if service.get("image") == "holdfast":
            assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        for needed in service.get("depends_on", {}):
            assert needed in content["services"]
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            # Certificates and Prometheus' key are put there by the operator.
            made = source in ("./tls", "./prometheus-key") or source in content["volumes"]
            assert made or (file.parent / source).is_file(), source


def test_compose_trusts_the_addresses_of_its_own_network_and_no_others() -> None:
    content: dict[str, Any] = yaml.safe_load((DEPLOY / "compose/full.yml").read_text())
    subnets = [one["subnet"] for one in content["networks"]["default"]["ipam"]["config"]]
    assert not any("networks" in service for service in content["services"].values())
    for name in ("api", "worker", "migrate"):
        assert content["services"][name]["environment"]["HOLDFAST_TRUSTED_PROXIES"].split(",") == subnets


def test_the_image_runs_unprivileged_with_a_health_check_and_locked_packages() -> None:
    lines = (DEPLOY / "Containerfile").read_text()
    assert "\nUSER 10001:10001\n" in lines
    assert "HEALTHCHECK" in lines
    assert "--require-hashes" in lines
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", lines, re.MULTILINE)
    assert all((ROOT / name).exists() for line in copied for name in line.split())


def test_units_are_accepted_by_systemd(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    for unit in UNITS:
        text = unit.read_text().replace("/opt/holdfast/bin/holdfast", "/bin/true")
        (tmp_path / unit.name).write_text(text)
    for unit in UNITS:
        ran = subprocess.run(
            [analyze, "verify", "--man=no", str(tmp_path / unit.name)], capture_output=True, text=True, check=False
        )
        ours = [line for line in ran.stderr.splitlines() if unit.name in line]
        assert ours == [], ran.stderr


@pytest.mark.slow
def test_the_settings_that_the_page_writes_start_the_server_that_the_unit_starts(
    tmp_path: Path, empty_postgres_database_url: str
) -> None:
    page = (ROOT / "docs/DEPLOY.md").read_text()
    [typed] = [text for text in re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL) if "<<END" in text]
    for here, there in (("/etc/holdfast", str(tmp_path / "etc")), ("--group holdfast ", "")):
        assert here in typed
        typed = typed.replace(here, there)
    run("bash", "-euc", typed)
    written = [line.split("=", 1) for line in (tmp_path / "etc/environment").read_text().splitlines()]
    settings = {name.removeprefix("HOLDFAST_"): value for name, value in written}
    settings["DATABASE_URL"] = empty_postgres_database_url
    [options] = re.findall(
        r"^ExecStart=\S+ serve (.*) --port 8000", (DEPLOY / "systemd/holdfast.service").read_text(), re.MULTILINE
    )
    with (
        started(tmp_path, *options.split(), "--no-background", settings=settings) as server,
        server.connect(settings["SERVICE_KEY"]) as client,
    ):
        assert client.get("/v1/ops/lag").status_code == 200


@pytest.mark.slow
def test_the_caddyfile_is_valid() -> None:
    run(tool("caddy"), "validate", "--config", str(DEPLOY / "caddy/Caddyfile"), "--adapter", "caddyfile")


@contextmanager
def nginx(directory: Path, *upstreams: int) -> Iterator[httpx.Client]:
    """nginx as it is deployed, on other ports and with a certificate of its own."""
    port, plain = free_port(), free_port()
    key, certificate = directory / "privkey.pem", directory / "fullchain.pem"
    run(
        tool("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
        "-keyout", str(key), "-out", str(certificate),
    )  # fmt: skip
    site = (DEPLOY / "nginx/holdfast.conf").read_text() + (DEPLOY / "nginx/upstream.conf").read_text()
    servers = " ".join(f"server 127.0.0.1:{upstream} max_fails=0;" for upstream in upstreams)
    replaced = {
        "listen 443 ssl http2;": f"listen 127.0.0.1:{port} ssl http2;", "listen 80;": f"listen 127.0.0.1:{plain};",
        "/etc/holdfast/tls": str(directory), "/var/cache/nginx/holdfast": str(directory / "cache"),
        "server 127.0.0.1:8000 max_fails=0;": servers, "listen [::]:443 ssl http2;": "", "listen [::]:80;": "",
    }  # fmt: skip
    for old, new in replaced.items():
        assert old in site
        site = site.replace(old, new)
    paths = "".join(
        f"{name}_temp_path {directory / name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    # Its workers have to read a directory that only we can.
    user, conf = "user root; " if os.getuid() == 0 else "", directory / "nginx.conf"
    conf.write_text(
        f"{user}daemon off; pid {directory / 'pid'}; error_log {directory / 'errors'};\nevents {{}}\n"
        f"http {{ access_log off; {paths}\n{site}\n}}\n"
    )
    command = [tool("nginx"), "-p", str(directory), "-c", str(conf)]
    run(*command, "-t")
    with subprocess.Popen(command) as process:
        try:
            with httpx.Client(base_url=f"https://127.0.0.1:{port}", verify=False, trust_env=False) as client:
                yield client
        finally:
            process.terminate()


@pytest.mark.slow
def test_nginx_serves_holdfast_with_tls_a_cache_and_no_metrics(tmp_path: Path) -> None:
    (tmp_path / "serving").mkdir()
    (tmp_path / "nginx").mkdir()
    with started(tmp_path / "serving") as server, nginx(tmp_path / "nginx", server.port) as client:
        eventually(lambda: answers(client))
        assert client.get("/healthz/ready").status_code == 200
        assert client.get("/metrics").status_code == 404
        first, second = client.get("/v1/features"), client.get("/v1/features")
        assert first.json().keys() == {"features", "degraded_features"}
        assert second.headers["x-cache"] == "HIT"
        assert second.headers["strict-transport-security"]
        shop = server.shop()
        key = {"Authorization": f"Bearer {server.environment['HOLDFAST_SERVICE_KEY']}"}
        assert client.put(shop.path, json={"total_units": 2}, headers=key).status_code == 200
        held = client.post(f"{shop.path}/reserve", json={"owner_id": "ada", "quantity": 1}, headers=key)
        assert held.status_code == 200
        assert held.headers["strict-transport-security"]
        events = client.get(f"/v1/reservations/{held.json()['reservation_id']}/history", headers=key)
        assert events.json()["events"][0]["type"] == "reservation.created"


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz/live").status_code == 200
    except httpx.TransportError:
        return False
