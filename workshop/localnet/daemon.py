"""A server as a process of its own: started detached, recognised without doubt, stopped safely.

The server inherits an open, exclusively locked file. While the lock is held it runs, however it
was started and whoever asks; when it is gone, it does not, whatever pid files say. Locks end with
their process, so neither a crash nor a reboot nor a reused pid can mislead.
"""

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workshop.localnet.errors import LocalnetError

_POLL_S = 0.02
# A process that another thread is about to start holds the files of all servers, locks and all, until it is the other
# program: a lock counts if it is held so often in a row.
_LOOKS = 10
_MAX_LOG_BYTES = 20_000_000
# A server inherits nothing else: neither PGDATA nor secrets.
_INHERITED = ("HOME", "LD_LIBRARY_PATH", "TMPDIR")


@dataclass(frozen=True)
class Daemon:
    """One server of one installation. `folder` is its own; the guard and the log lie in it."""

    name: str
    folder: Path
    stop_signal: signal.Signals = field(default=signal.SIGTERM, kw_only=True)

    @property
    def log_file(self) -> Path:
        """The server's output."""
        return self.folder / "log"

    @property
    def _guard_file(self) -> Path:
        return self.folder / "running"

    def is_running(self) -> bool:
        """Whether the server's process exists."""
        if not self._guard_file.exists():
            return False
        descriptor = os.open(self._guard_file, os.O_RDWR)
        try:
            return not _takes_lock(descriptor)
        finally:
            os.close(descriptor)

    def start(self, arguments: Sequence[str | Path], *, variables: Mapping[str, str], **options: Any) -> None:
        """Start the server in a session of its own, so that Ctrl-C does not reach it.

        `options` go to `subprocess`: the user to run as. Raises `LocalnetError` if it runs.
        """
        if self.log_file.exists() and self.log_file.stat().st_size > _MAX_LOG_BYTES:
            self.log_file.replace(self.log_file.with_suffix(".old"))
        guard = os.open(self._guard_file, os.O_RDWR | os.O_CREAT, 0o600)
        log = os.open(self.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            if not _takes_lock(guard):
                raise LocalnetError(f"{self.name} is running already")
            # The shell ends at once: init adopts the server and reaps it.
            pid = subprocess.run(
                ["/bin/sh", "-c", '"$@" >&2 & echo $!', "sh", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**_inherited(), **variables},
                cwd="/",
                start_new_session=True,
                pass_fds=(guard,),
                check=True,
                **options,
            ).stdout
            os.ftruncate(guard, 0)
            os.pwrite(guard, pid, 0)
        finally:
            os.close(guard)
            os.close(log)

    def pid(self) -> int | None:
        """Return the server's process id, if it runs and really is the server."""
        if not self.is_running():
            return None
        text = self._guard_file.read_text().strip()
        return int(text) if text.isdecimal() and self._is_ours(int(text)) else None

    def _is_ours(self, pid: int) -> bool:
        """Whether a process has the guard open. Where there is no /proc, the lock must do."""
        open_files = Path(f"/proc/{pid}/fd")
        if not Path("/proc/self/fd").exists():
            return True
        guard = self._guard_file.stat()
        try:
            return any(os.path.samestat(one.stat(), guard) for one in open_files.iterdir())
        except OSError:
            return False

    def stop(self, *, timeout_s: float = 20) -> None:
        """Stop the server, politely first, and return when it is gone. No server: no effect."""
        for signal_number in (self.stop_signal, signal.SIGKILL):
            pid = self.pid()
            if pid is not None:
                os.kill(pid, signal_number)
            if self._is_gone_within(timeout_s):
                return
        raise LocalnetError(f"{self.name} does not stop; see {self.log_file}")

    def _is_gone_within(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.is_running():
            if time.monotonic() > end:
                return False
            time.sleep(_POLL_S)
        return True

    def end_of_log(self) -> str:
        """Return the end of the log, for an error message."""
        if not self.log_file.exists():
            return ""
        return self.log_file.read_text(errors="replace")[-2000:]


def _takes_lock(descriptor: int) -> bool:
    for _ in range(_LOOKS):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(_POLL_S)
    return False


def _inherited() -> dict[str, str]:
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {"PATH": os.defpath, **kept}
