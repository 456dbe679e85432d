"""A short run of `chaos.py`; longer ones are started by hand."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("chaos.py")
SECONDS = 12


def test_servers_workers_valkey_and_postgresql_die_in_random_order_and_the_books_are_right(seed: int) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    print(f"for longer: python {PROGRAM} --seed {seed} --seconds 120")
    command = [sys.executable, str(PROGRAM), "--seed", str(seed), "--seconds", str(SECONDS)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    print(ran.stdout)
    assert ran.returncode == 0, ran.stdout + ran.stderr
