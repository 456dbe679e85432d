"""`holdfast demo --open`."""

import socket
import webbrowser

import pytest

from holdfast.lab.commands.demo import _open


@pytest.mark.parametrize("starts", [True, False])
def test_demo_open_opens_the_storefront_once_the_server_listens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, starts: bool
) -> None:
    opened: list[str] = []

    def open_page(page: str) -> bool:
        opened.append(page)
        return starts

    monkeypatch.setattr(webbrowser, "open", open_page)
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        _open(url, f"{url}/s/drop-1")
    assert opened == [f"{url}/s/drop-1"]
    assert ("open http" in capsys.readouterr().err) is not starts
