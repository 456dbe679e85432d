from pathlib import Path

from holdfast.rush.rehearsal import Rushed


def write_report(rushed: Rushed, path: Path) -> None:
    raise NotImplementedError
