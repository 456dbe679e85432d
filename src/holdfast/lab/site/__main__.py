"""`python -m holdfast.lab.site [DIRECTORY]`."""

import sys
from pathlib import Path

from holdfast.lab.site.build import build

if __name__ == "__main__":
    site = build(Path(sys.argv[1] if len(sys.argv) > 1 else "build"))
    print(f"Open {site / 'index.html'}")
