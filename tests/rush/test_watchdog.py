"""What a process of the lab has started ends with it, also if it is killed."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from http_calling import eventually

_SLEEPERS = """
import json, os, signal, sys
from contextlib import ExitStack
from pathlib import Path
import psutil
from holdfast.lab.load.processes import running
with ExitStack() as stack:
    started = [stack.enter_context(running(name, ["sleep", "600"], Path(sys.argv[1]))).pid for name in "abc"]
    with running("over", ["sleep", "600"], Path(sys.argv[1])) as over:
        pass
    os.kill(started[1], signal.SIGSTOP)
    # Ends its children as nginx does: only if it is asked to end.
    script = ["sh", "-c", "trap 'kill $!' TERM; sleep 600 & wait"]
    master = stack.enter_context(running("master", script, Path(sys.argv[1]), ended_by=signal.SIGTERM))
    while not (workers := psutil.Process(master.pid).children()):
        pass
    started += [master.pid, workers[0].pid]
    print(json.dumps(started), flush=True)
    signal.pause()
"""
# Killed while it waits for one that does not stop.
_STOPPING = '''
import json, sys
from pathlib import Path
from holdfast.lab.load.processes import running
script = """
import signal
from pathlib import Path
signal.signal(signal.SIGTERM, lambda *_: Path("told").touch())
Path("ready").touch()
while True:
    signal.pause()
"""
directory = Path(sys.argv[1])
with running("stubborn", [sys.executable, "-c", script], directory) as child:
    while not (directory / "ready").exists():
        pass
    print(json.dumps([child.pid]), flush=True)
'''
# As the page and a rush start them.
_STORES = """
import asyncio, json, signal
import psutil
from holdfast.lab.simulation.stores import Stores
stores = Stores()
stores.start_postgres()
stores.redis_url()
url = asyncio.run(stores.create_database())
asyncio.run(stores.freeze_postgres())
found = [p.pid for p in psutil.process_iter(["cmdline"]) if str(stores._directory) in " ".join(p.info["cmdline"] or [])]
print(json.dumps(found + stores._frozen), flush=True)
signal.pause()
"""


def started_by(program: str, directory: Path) -> "tuple[subprocess.Popen[str], list[psutil.Process]]":
    command = [sys.executable, "-c", program, str(directory)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, [psutil.Process(pid) for pid in json.loads(process.stdout.readline())]


def is_over(process: psutil.Process) -> bool:
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


@pytest.mark.parametrize("program", [_SLEEPERS, pytest.param(_STORES, marks=pytest.mark.slow)])
def test_children_end_when_their_parent_is_killed(program: str, tmp_path: Path) -> None:
    process, children = started_by(program, tmp_path)
    try:
        assert len(children) >= 3
        assert not any(is_over(child) for child in children)
        process.kill()
        process.communicate()
        eventually(lambda: all(is_over(child) for child in children), within_s=60)
    finally:
        process.kill()
        process.wait()
        for child in children:
            if not is_over(child):
                child.kill()


def test_a_child_that_is_slow_to_stop_ends_too(tmp_path: Path) -> None:
    process, [child] = started_by(_STOPPING, tmp_path)
    try:
        eventually((tmp_path / "told").exists, within_s=60)
        process.kill()
        process.communicate()
        eventually(lambda: is_over(child), within_s=60)
    finally:
        process.kill()
        process.wait()
        if not is_over(child):
            child.kill()


def test_a_process_that_got_the_id_of_a_child_that_ended_is_left_alone() -> None:
    other = subprocess.Popen(["sleep", "600"])
    program = f"""
import os, signal
from holdfast.lab.load import watchdog
watchdog._tell("+{other.pid} 1 9")
os.kill(os.getpid(), signal.SIGKILL)
"""
    try:
        watchdogs = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
        # Its standard output is closed when the watchdog, too, has ended.
        assert watchdogs.returncode == -signal.SIGKILL
        assert other.poll() is None
    finally:
        os.kill(other.pid, signal.SIGKILL)
        other.wait()
