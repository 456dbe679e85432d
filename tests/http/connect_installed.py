"""`holdfast-connect` as shops install it: under its own name. `test_distributions.py` builds and installs the wheel."""

import os
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "holdfast" / "connect"


def with_connect(directory: Path) -> dict[str, str]:
    """The environment in which `import holdfast_connect` finds it."""
    (directory / "holdfast_connect").symlink_to(SOURCE)
    paths = [str(directory), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
