"""Run a node of a local chain as a process of its own, at a port of this installation."""

import sys
from collections.abc import Callable
from dataclasses import dataclass

from workshop.localnet.daemon import Daemon
from workshop.localnet.errors import LocalnetError
from workshop.localnet.folder import ROOT, Folder, is_free
from workshop.localnet.readiness import is_healthy, wait_until_ready

_START_S = 60
_ATTEMPTS = 3


@dataclass(frozen=True)
class NodeProcess:
    """One kind of node. `key` names its folder and its port, `module` what Python starts."""

    name: str
    key: str
    module: str

    def url(self, folder: Folder) -> str:
        """Return the node's RPC URL."""
        return f"http://127.0.0.1:{folder.port(self.key)}"

    def daemon(self, folder: Folder) -> Daemon:
        """Return the process."""
        return Daemon(self.name, folder.path / self.key)

    def ensure(
        self, folder: Folder, faucet: str, is_ours: Callable[[str], bool], progress: Callable[[str], None]
    ) -> None:
        """Make sure that the node runs. `is_ours` tells by the URL whether it is that of this installation.

        `faucet`: the address that has all coins of a new chain.
        """

        def answers() -> bool:
            """Whether our chain answers, not one of another installation on the same port."""
            try:
                return is_ours(self.url(folder))
            except (OSError, ValueError, LocalnetError):
                return False

        server = self.daemon(folder)
        if is_healthy(server, answers, timeout_s=_START_S):
            return
        progress(f"starting {self.name}")
        server.folder.mkdir(mode=0o700, exist_ok=True)
        for attempt in range(1, _ATTEMPTS + 1):
            if not is_free(folder.port(self.key)):
                folder.new_port(self.key)
            self._start(folder, faucet)
            try:
                wait_until_ready(server, answers, timeout_s=_START_S)
            except LocalnetError:
                # Another program may have taken the port between the question and the start.
                if attempt == _ATTEMPTS or is_free(folder.port(self.key)):
                    raise
            else:
                return

    def _start(self, folder: Folder, faucet: str) -> None:
        server = self.daemon(folder)
        options = {"--data": server.folder, "--port": folder.port(self.key), "--faucet": faucet}
        words = [str(word) for pair in options.items() for word in pair]
        server.start([sys.executable, "-m", self.module, *words], variables={"PYTHONPATH": str(ROOT)})
