"""The data folder: its place, its owner, and the secrets and ports that are chosen once."""

import fcntl
import json
import os
import random
import socket
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from workshop.localnet.errors import LocalnetError

ROOT = Path(__file__).resolve().parents[2]
# Below what Linux and macOS hand out to outgoing connections.
_PORTS = range(20_000, 32_000)
_NOBODY = 65_534


@dataclass(frozen=True)
class Folder:
    """One local installation. Everything it has lies below `path`."""

    path: Path

    @property
    def keys_file(self) -> Path:
        """The secrets, readable by their owner alone."""
        return self.path / "keys.json"

    @property
    def ports_file(self) -> Path:
        """The TCP ports by name."""
        return self.path / "ports.json"

    def choose_keys(self, names: Collection[str], make: Callable[[], dict[str, str]]) -> dict[str, str]:
        """Return the secrets by name. If one of `names` is missing, `make` chooses; what was chosen before stays."""
        keys = self.keys()
        if not keys.keys() >= set(names):
            with locked(self.path / "keys.lock"):
                keys = make() | self.keys()
                _write(self.keys_file, keys)
        return keys

    def keys(self) -> dict[str, str]:
        """Return the secrets that were chosen so far, by name."""
        if not self.keys_file.exists():
            return {}
        return cast("dict[str, str]", json.loads(self.keys_file.read_text()))

    def port(self, name: str) -> int:
        """Return the TCP port of a server; choose it on first use, once for all who ask at once."""
        known = self._ports().get(name)
        if known is None:
            with locked(self.path / "keys.lock"):
                known = self._ports().get(name) or self._choose_port(name)
        return known

    def new_port(self, name: str) -> int:
        """Choose another free port for a server and remember it."""
        with locked(self.path / "keys.lock"):
            return self._choose_port(name)

    def _choose_port(self, name: str) -> int:
        ports = self._ports()
        others = set(ports.values())
        # Random ports keep two installations apart, even while neither of them runs.
        candidates = random.sample(_PORTS, k=200)
        port = next((p for p in candidates if p not in others and is_free(p)), None)
        if port is None:
            raise LocalnetError("no free TCP port on 127.0.0.1 between 20000 and 32000")
        _write(self.ports_file, {**ports, name: port})
        return port

    def _ports(self) -> dict[str, int]:
        if not self.ports_file.exists():
            return {}
        return cast("dict[str, int]", json.loads(self.ports_file.read_text()))


def open_folder() -> Folder:
    """Return the data folder, EMBEDDED_DIR or `.data` in the checkout, and create it if missing.

    Raises `LocalnetError` if it belongs to somebody else.
    """
    path = Path(os.environ.get("EMBEDDED_DIR") or ROOT / ".data").expanduser().resolve()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise LocalnetError(
            f"{path} cannot be made ({error.strerror}). With EMBEDDED=true, which is for development, the servers that "
            "have no URL run on this machine and keep their data there. On a server, unset EMBEDDED; on your own "
            "machine, set EMBEDDED_DIR to a folder of yours."
        ) from None
    owner = path.stat().st_uid
    if owner != os.geteuid():
        raise LocalnetError(
            f"{path} belongs to user {owner}, you are {os.geteuid()}: "
            "run as that user or set EMBEDDED_DIR to another folder"
        )
    if os.geteuid() == 0 and path.stat().st_gid != _NOBODY:
        # PostgreSQL does not run as root. Its user may pass through, but neither list nor read.
        os.chown(path, 0, _NOBODY)
        path.chmod(0o710)
    return Folder(path)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the one lock on a file; wait for it. The kernel releases it if the process dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def is_free(port: int) -> bool:
    """Whether a server could listen on a port of 127.0.0.1 now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _write(path: Path, content: dict[str, str] | dict[str, int]) -> None:
    """Write a file that only its owner reads, whole or not at all."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(content, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
