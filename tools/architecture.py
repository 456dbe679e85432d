"""Checks the shape of the source tree, and draws its layers into docs/ARCHITECTURE.md.

The layers are the ones import-linter enforces (`pyproject.toml`), and the sentence beside each package is the first
sentence of its `__init__`, so the page says what the code does. `--check` changes nothing and fails if the page has
drifted, a folder has become too large to take in, or a package does not say what belongs in it and what may import it.
"""

import ast
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "ARCHITECTURE.md"
BEGIN, END = "<!-- layers:begin -->", "<!-- layers:end -->"
# More files side by side than this, and a newcomer no longer finds one by its name.
FOLDER_MAX = 20
FILE_LINES_MAX = 400


def layers() -> list[list[str]]:
    """The modules of each layer, from the top down."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [named] = [contract for contract in contracts if contract["type"] == "layers" and "containers" not in contract]
    return [[name.strip(" ()") for name in re.split(r"[|:]", layer)] for layer in named["layers"]]


def first_sentence(module: str) -> str:
    path = SOURCE.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return re.split(r"(?<=\.)\s", docstring(file).strip(), maxsplit=1)[0].replace("\n", " ")


def says_its_importers(file: Path) -> bool:
    """Or is generated: the client's packages are part of its public interface."""
    return "import" in docstring(file).lower() or "Generated from" in file.read_text()[:40]


def docstring(file: Path) -> str:
    return ast.get_docstring(ast.parse(file.read_text())) or ""


def drawing() -> str:
    found = layers()
    lines = ["```mermaid", "flowchart TB"]
    for number, modules in enumerate(found):
        names = " · ".join(module.removeprefix("holdfast.") for module in modules)
        lines.append(f'  L{number}["{names}"]')
    lines += [f"  L{number} --> L{number + 1}" for number in range(len(found) - 1)]
    lines += ["```", "", "| package | what belongs there |", "|---|---|"]
    lines += [f"| `{module.removeprefix('holdfast.')}` | {first_sentence(module)} |" for row in found for module in row]
    return "\n".join(lines)


def redrawn(page: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{drawing()}\n{END}{after}"


def findings() -> list[str]:
    found = []
    folders = {file.parent for file in SOURCE.rglob("*.py")}
    for folder in sorted(folders - {SOURCE}):
        name, files = folder.relative_to(ROOT), list(folder.glob("*.py"))
        if len(files) > FOLDER_MAX:
            found.append(f"{name} has {len(files)} Python files; {FOLDER_MAX} at most: split it by subject")
        if (folder / "__init__.py").exists() and not says_its_importers(folder / "__init__.py"):
            found.append(f"{name}/__init__.py does not say what belongs there and what may import it")
        for file in files:
            lines = len(file.read_text().splitlines())
            if lines > FILE_LINES_MAX:
                found.append(f"{file.relative_to(ROOT)} has {lines} lines; {FILE_LINES_MAX} at most")
    if redrawn(PAGE.read_text()) != PAGE.read_text():
        found.append("docs/ARCHITECTURE.md shows other layers than pyproject.toml; run `make docs`")
    return found


def main() -> int:
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(redrawn(PAGE.read_text()))
        return 0
    found = findings()
    for finding in found:
        print(finding, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
