"""Short runs of `selling_day.py`; the long ones are started by hand."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("selling_day.py")
PURCHASES = 150


@pytest.mark.parametrize("engine", ["sqlite", "postgres", "redis"])
def test_every_unit_ends_sold_or_free_and_every_charge_as_an_order_or_nothing(engine: str, seed: int) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    print(f"for longer: python {PROGRAM} --engine {engine} --seed {seed} --purchases 10000")
    command = [sys.executable, str(PROGRAM), "--engine", engine, "--seed", str(seed), "--purchases", str(PURCHASES)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=480, check=False)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
