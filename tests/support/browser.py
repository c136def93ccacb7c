"""A real Chromium, driven by its own DevTools protocol: no driver to install, nothing but the browser itself.

`websockets` comes with web3.
"""

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE_S = 60
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-port=0",
)  # fmt: skip


class Browser:
    """A page of a browser. Every wait is for something to be so, never for time to pass."""

    def __init__(self, page: ClientConnection) -> None:
        self.troubles: list[str] = []  # what the page's scripts failed of
        self._page = page
        self._calls = 0
        self._call("Runtime.enable")

    def visit(self, url: str) -> None:
        """Open an address and wait until it is there."""
        self._call("Page.navigate", url=url)
        self.wait(f"location.href.startsWith({json.dumps(url)}) && document.readyState === 'complete'")

    def run(self, script: str) -> Any:
        """Run a script in the page; return its value."""
        answer = self._call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until a condition holds in the page, which may be another page by then."""
        # Between two pages there may be no body to ask: that is not yet, not wrong.
        script = f"(() => {{ try {{ return Boolean({condition}); }} catch {{ return false; }} }})()"
        _wait_until(lambda: bool(self.run(script)), condition)

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._calls += 1
        self._page.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._page.recv(timeout=PATIENCE_S))
            if message.get("method") == "Runtime.exceptionThrown":
                self.troubles.append(json.dumps(message["params"]))
            if message.get("id") == self._calls:
                # The page may be on its way to the next one: then there is nothing to say yet.
                result: dict[str, Any] = message.get("result", {"result": {}})
                return result


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Run a browser of its own, with an empty profile, until the block ends."""
    assert CHROMIUM, "Chromium is not installed."
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as folder:
        command = [CHROMIUM, *_FLAGS, f"--user-data-dir={folder}", "about:blank"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
            try:
                with connect(_address_of_page(Path(folder)), proxy=None, max_size=None) as page:
                    yield Browser(page)
            finally:
                process.terminate()


def _address_of_page(folder: Path) -> str:
    file = folder / "DevToolsActivePort"
    _wait_until(lambda: file.exists() and len(file.read_text().split()) > 1, "Chromium listens")
    port, browser_path = file.read_text().split()
    pages: list[str] = []
    with connect(f"ws://127.0.0.1:{port}{browser_path}", proxy=None) as browser:

        def find_pages() -> bool:
            browser.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
            targets = json.loads(browser.recv(timeout=PATIENCE_S))["result"]["targetInfos"]
            pages.extend(target["targetId"] for target in targets if target["type"] == "page")
            return bool(pages)

        _wait_until(find_pages, "Chromium has a page")
    return f"ws://127.0.0.1:{port}/devtools/page/{pages[0]}"


def _wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"Never came true: {what}"
        time.sleep(0.1)
