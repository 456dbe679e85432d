"""The Helm chart: rendered by helm and checked against Kubernetes' schemas where helm is there (`make helm`)."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from holdfast.cli.app import COMMANDS
from holdfast.lab.metric_table import known_metrics

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/holdfast"
TEMPLATES = sorted((CHART / "templates").iterdir())
EXISTING = ("--set", "secrets.existing=holdfast")
EVERYTHING = (
    "--set", "secrets.create.HOLDFAST_DATABASE_URL=postgresql://db/holdfast", "--set", "autoscaling.inFlightPerPod=200",
    "--set", "autoscaling.lagItems=1000", "--set", "ingress.enabled=true", "--set", "ingress.tlsSecret=shop",
    "--set", "settings.HOLDFAST_LOG_LEVEL=info", "--set", "networkPolicy.from[0].podSelector.matchLabels.app=nginx",
)  # fmt: skip


def values() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return read


def test_the_defaults_keep_to_the_schema_and_mistakes_do_not() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())
    check = jsonschema_rs.Draft7Validator(schema)
    assert list(check.iter_errors(values())) == []
    for wrong in ({"replicas": 2}, {"api": {"replicas": "two"}}, {"settings": {"LOG_LEVEL": "info"}}):
        assert list(check.iter_errors(values() | wrong)) != []


def test_templates_use_only_values_metrics_and_commands_that_exist() -> None:
    series = {name for metric in known_metrics() for name in metric.series}
    for template in TEMPLATES:
        text = template.read_text()
        for path in re.findall(r"\.Values\.([A-Za-z.]+)", text):
            found: Any = values()
            for name in path.removesuffix(".HOLDFAST").split("."):
                assert name in found, path
                found = found[name]
        assert set(re.findall(r"\bholdfast_[a-z_]+", text)) <= series
        for command in re.findall(r'args: \["([a-z]+)"', text):
            assert command in COMMANDS


def rendered(*options: str) -> subprocess.CompletedProcess[str]:
    helm = shutil.which("helm", path=f"{ROOT / 'build/tools'}:/usr/local/bin:/usr/bin") or shutil.which("helm")
    if helm is None:
        pytest.skip("NOT CHECKED: helm is not installed here (make helm)")
    command = [helm, "template", "shop", str(CHART), "--kube-version", "1.31.0", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("options", [EXISTING, EVERYTHING], ids=["defaults", "everything"])
def test_what_helm_renders_keeps_to_the_schemas_and_is_unprivileged(options: tuple[str, ...], tmp_path: Path) -> None:
    made = rendered(*options)
    assert made.returncode == 0, made.stderr
    file = tmp_path / "rendered.yaml"
    file.write_text(made.stdout)
    ran = subprocess.run(
        [sys.executable, "-m", "kubernetes_validate", "--strict", str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    objects = [one for one in yaml.safe_load_all(made.stdout) if one]
    kinds = {one["kind"] for one in objects}
    assert kinds >= {"Deployment", "Service", "PodDisruptionBudget", "HorizontalPodAutoscaler", "Job", "NetworkPolicy"}
    pods = [one["spec"]["template"] for one in objects if "template" in one["spec" if "spec" in one else "metadata"]]
    assert len(pods) == 3
    for pod in pods:
        assert pod["spec"]["securityContext"]["runAsNonRoot"]
        [container] = pod["spec"]["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert "memory" in container["resources"]["limits"]


@pytest.mark.slow
def test_helm_refuses_a_release_without_secrets_or_with_wrong_values() -> None:
    assert "secrets.existing" in rendered().stderr
    assert "want integer" in rendered(*EXISTING, "--set", "api.replicas=two").stderr
