"""Makes a release: `make release VERSION=1.2.0`, or `python tools/release.py --build DIRECTORY` to build only.

In this order: the changelog's section Unreleased gets its version and date, both packages get the version, then wheel,
sdist, SBOM (CycloneDX, from the locked requirements), checksums and provenance are built, and the change is committed
and tagged. Nothing is pushed or published: look at it first. If building fails, the tree is left as it was.
"""

import hashlib
import json
import os
import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHANGELOG, MODULE = ROOT / "CHANGELOG.md", ROOT / "src" / "holdfast" / "__init__.py"
PACKAGES = [ROOT / "clients" / "typescript" / name for name in ("package.json", "package-lock.json")]
UNRELEASED = "## Unreleased\n"
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")


def run(*command: str | Path) -> str:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def build(directory: Path) -> list[Path]:
    """Everything that is published, in an empty directory."""
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        sys.exit(f"{directory} is not empty.")
    os.environ.setdefault("SOURCE_DATE_EPOCH", run("git", "log", "-1", "--format=%ct").strip())
    run(sys.executable, "-m", "hatchling", "build", "--directory", directory.resolve())
    [wheel] = directory.glob("*.whl")
    sbom = directory / f"{wheel.stem.partition('-py')[0]}.cdx.json"
    cyclonedx = Path(sys.executable).with_name("cyclonedx-py")
    # No index: where packages are fetched from differs from place to place.
    inputs = ("requirements", "--pyproject", "pyproject.toml", "--output-reproducible", "--short-PURLs")
    run(cyclonedx, *inputs, "-o", sbom.resolve(), "requirements.txt")
    built = sorted(directory.iterdir())
    sums = {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in built}
    (directory / "SHA256SUMS").write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    (directory / "provenance.json").write_text(json.dumps(_provenance(sums), indent=2) + "\n")
    return sorted(directory.iterdir())


def _provenance(sums: dict[str, str]) -> dict[str, object]:
    """in-toto's statement with SLSA's predicate, unsigned: sign it where you publish."""
    commit = run("git", "rev-parse", "HEAD").strip()
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sums.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://pypi.org/project/hatchling",
                "externalParameters": {"command": "make release"},
                "resolvedDependencies": [{"name": "source", "digest": {"gitCommit": commit}}],
            },
            "runDetails": {"builder": {"id": f"python {platform.python_version()}"}},
        },
    }


def with_version(changelog: str, version: str, day: str) -> str:
    """The section Unreleased under its version, and a new, empty one before it."""
    before, found, after = changelog.partition(UNRELEASED)
    if not found or not after.strip() or after.lstrip().startswith("## "):
        sys.exit("The section Unreleased of CHANGELOG.md is empty: there is nothing to release.")
    return f"{before}{UNRELEASED}\n## {version} ({day})\n{after}"


def release(version: str) -> None:
    if not _VERSION.fullmatch(version):
        sys.exit(f"{version!r} is not a version; use 1.2.3, or 1.2.3rc1.")
    if run("git", "status", "--porcelain"):
        sys.exit("There are changes that are not committed.")
    if run("git", "tag", "--list", f"v{version}"):
        sys.exit(f"There is a tag v{version} already.")
    today = datetime.now(UTC).date().isoformat()
    CHANGELOG.write_text(with_version(CHANGELOG.read_text(), version, today))
    MODULE.write_text(re.sub(r'__version__ = ".*"', f'__version__ = "{version}"', MODULE.read_text()))
    for file in PACKAGES:
        file.write_text(re.sub(r'"version": "[^"]*"', f'"version": "{version}"', file.read_text(), count=1))
    try:
        for file in build(ROOT / "dist" / version):
            print(file.relative_to(ROOT))
    except (subprocess.CalledProcessError, SystemExit):
        run("git", "checkout", "--", ".")
        raise
    run("git", "commit", "--quiet", "--all", "--message", f"release: {version}")
    run("git", "tag", "--annotate", "--message", f"Holdfast {version}", f"v{version}")
    print(f"Committed and tagged v{version}. Nothing was pushed or published.")


def main() -> None:
    match sys.argv[1:]:
        case ["--build", directory]:
            for file in build(Path(directory)):
                print(file)
        case [version]:
            release(version)
        case _:
            sys.exit("usage: make release VERSION=1.2.3")


if __name__ == "__main__":
    main()
