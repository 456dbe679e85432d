"""A real Firefox, driven by WebDriver BiDi, because Playwright only drives a Firefox of its own making.

The least that a buyer's way needs: open a page, wait until an element is there, press it with the mouse.
"""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Thread, Timer
from typing import Any

from websockets.sync.client import ClientConnection, connect

from holdfast.lab.load.engines import free_port

PROGRAMS = ("firefox-esr", "firefox")
# Upper bounds for a busy machine.
START_S, ANSWER_S, APPEARS_MS = 120.0, 120.0, 90_000
# Keeps it from calling its vendor's hosts.
PREFERENCES = {
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "browser.safebrowsing.malware.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "intl.locale.requested": "en-GB",
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "services.settings.server": "data:,",
    "toolkit.telemetry.enabled": False,
}
_LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
# Looks again whenever the page has changed.
_APPEARS = """
(selector, text, patience) => new Promise((resolve, reject) => {
  const matches = (one) => one.textContent.includes(text) && !one.disabled && one.checkVisibility();
  const look = () => [...document.querySelectorAll(selector)].find(matches);
  const found = look();
  if (found) return resolve(found);
  const missing = () => reject(new Error(`no ${selector} with "${text}": ${document.body.innerText}`));
  const late = setTimeout(missing, patience);
  const seen = new MutationObserver(() => {
    const found = look();
    if (found) { clearTimeout(late); seen.disconnect(); resolve(found); }
  });
  seen.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
})
"""


def program() -> str | None:
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Firefox:
    """One window. `complaints` are the errors that its pages logged."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection, self._numbers = connection, count(1)
        self.complaints: list[str] = []
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded"])
        self._window = self.call("browsingContext.getTree")["contexts"][0]["context"]

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._connection.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            said = json.loads(self._connection.recv(timeout=ANSWER_S))
            if said.get("method") == "log.entryAdded":
                self._note(said["params"])
            elif said.get("id") == number:
                assert said["type"] == "success", said
                result: dict[str, Any] = said["result"]
                return result

    def _note(self, entry: dict[str, Any]) -> None:
        if entry["level"] in ("error", "warn"):
            self.complaints.append(f"{entry['level']}: {entry['text']}")

    def open(self, url: str) -> None:
        self.call("browsingContext.navigate", context=self._window, url=url, wait="complete")

    def appears(self, selector: str, text: str = "") -> dict[str, Any]:
        """Waits for an element that can be seen and has this text."""
        given: list[dict[str, Any]] = [
            {"type": "string", "value": selector},
            {"type": "string", "value": text},
            {"type": "number", "value": APPEARS_MS},
        ]
        answer = self.call(
            "script.callFunction",
            functionDeclaration=_APPEARS,
            arguments=given,
            target={"context": self._window},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer["exceptionDetails"]["text"]
        element: dict[str, Any] = answer["result"]
        return element

    def press(self, label: str) -> None:
        """With the mouse, in the middle of the button."""
        element = {"type": "element", "element": {"sharedId": self.appears("button", label)["sharedId"]}}
        moves: list[dict[str, Any]] = [
            {"type": "pointerMove", "x": 0, "y": 0, "origin": element},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        mouse = {"type": "pointer", "id": "mouse", "actions": moves}
        self.call("input.performActions", context=self._window, actions=[mouse])


@contextmanager
def running(directory: Path) -> Iterator[Firefox]:
    """With a new profile in `directory`."""
    found = program()
    assert found is not None
    profile = directory / "profile"
    profile.mkdir()
    lines = [f"user_pref({json.dumps(name)}, {json.dumps(value)});" for name, value in PREFERENCES.items()]
    (profile / "user.js").write_text("\n".join(lines))
    command = [found, "--headless", "--no-remote", "--profile", str(profile)]
    command += ["--remote-debugging-port", str(free_port())]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            with connect(f"{_address(process)}/session", open_timeout=START_S) as connection:
                yield Firefox(connection)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _address(process: "subprocess.Popen[str]") -> str:
    assert process.stderr is not None
    too_late, said = Timer(START_S, process.kill), list[str]()
    too_late.start()
    try:
        for line in process.stderr:
            said.append(line)
            if (found := _LISTENING.search(line)) is not None:
                # It must never wait for somebody to read what else it says.
                Thread(target=process.stderr.read, daemon=True).start()
                return found[1]
    finally:
        too_late.cancel()
    raise AssertionError(f"Firefox did not start: {''.join(said)}")
