"""An egress proxy: tinyproxy, Debian's package. It connects from an address of its own, by which receivers know it."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.kills import wait_until
from tests.support.ports import free_ports

# Of this machine's own addresses: what comes from here came through the proxy.
ADDRESS = "127.0.0.2"
# The one address that it lets nobody connect to.
FILTERED = "127.0.0.9"
USER, PASSWORD = "allowance", "s3cret"
_HOST = "127.0.0.1"


@dataclass(slots=True)
class Proxy:
    """A proxy that runs."""

    port: int
    log: Path

    def url(self, *, scheme: str = "http", port: int | None = None) -> str:
        return f"{scheme}://{USER}:{PASSWORD}@{_HOST}:{port or self.port}"

    def asked(self) -> list[str]:
        """List what it was asked to do."""
        return [line.partition("Request ")[2] for line in self.log.read_text().splitlines() if "Request (" in line]


@contextmanager
def tinyproxy(folder: Path) -> Iterator[Proxy]:
    """Run one until the block ends; without its program, skip. CI installs it, and fails without it."""
    program = shutil.which("tinyproxy", path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"]))
    if program is None and "CI" not in os.environ:
        pytest.skip("tinyproxy is not installed (Debian: apt-get install tinyproxy-bin)")
    assert program, ".ci/run installs tinyproxy"
    (port,) = free_ports(1)
    running = Proxy(port, folder / "tinyproxy.log")
    (folder / "filter").write_text(FILTERED.replace(".", "[.]") + "\n")
    (folder / "tinyproxy.conf").write_text(
        f'Port {port}\nListen {_HOST}\nBind {ADDRESS}\nTimeout 30\nMaxClients 50\nLogFile "{running.log}"\n'
        f'LogLevel Connect\nBasicAuth {USER} {PASSWORD}\nFilter "{folder}/filter"\nFilterType ere\n'
    )
    process = subprocess.Popen([program, "-d", "-c", str(folder / "tinyproxy.conf")], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: _listens(running), "the proxy listens", patience_s=20)
        yield running
    finally:
        process.terminate()
        process.wait(timeout=30)


def _listens(running: Proxy) -> bool:
    with suppress(OSError), socket.create_connection((_HOST, running.port), timeout=5):
        return True
    return False
