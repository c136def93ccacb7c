"""The thief of a run: who starts it, what it is given, what it says that it has done. See `tests.crash.thief`."""

import base64
import hashlib
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.installation import wait_until
from tests.crash.thief.tally import TRICKS, read_tally
from workshop.localnet.folder import ROOT

_GRACE_S = 60
# Of 256 transactions, so many are held back a little by all nodes once the thief has seen them: it may be first.
_HELD_BACK, _HELD_BACK_S = 32, 1.0


@dataclass(slots=True)
class Thief:
    """A process that has the relayers' seed, and nothing else that is secret. `shown`: what it was shown of Solana."""

    folder: Path
    _process: "subprocess.Popen[bytes]"
    _showing: threading.Lock = field(default_factory=threading.Lock)
    _shown_at: dict[bytes, float] = field(default_factory=dict)

    @classmethod
    def start(cls, folder: Path, relayer_seed: bytes, nodes: Mapping[str, str], seed: int) -> "Thief":
        """Start it in a folder of its own; `nodes` are the addresses of the chains' own nodes, by kind."""
        folder.mkdir()
        command = [sys.executable, "-m", "tests.crash.thief", "--evm", nodes["evm"], "--solana", nodes["solana"]]
        command += ["--shown", str(_shown(folder)), "--counts", str(_counts(folder)), "--seed", str(seed)]
        with (folder / "thief.log").open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,  # it ends with this process, however that ends
                stdout=log,
                stderr=subprocess.STDOUT,
                # Nothing of what this run knows: neither other keys, nor the database's address.
                env={"RELAYER_SEED": relayer_seed.hex()},
                cwd=ROOT,
                start_new_session=True,
            )
        return cls(folder, process)

    @property
    def counts(self) -> dict[str, int]:
        """How often it has played each trick."""
        return read_tally(_counts(self.folder))

    @property
    def missing(self) -> list[str]:
        """The tricks that it has not played so far."""
        counts = self.counts
        return [trick for trick in TRICKS if not counts.get(trick)]

    @property
    def status(self) -> int | None:
        """How it has ended; None: it goes on."""
        return self._process.poll()

    def is_at_it(self) -> bool:
        return self.status is None

    def end(self) -> None:
        """End it, by its id; it gives back the relayer's gas money first."""
        if self.is_at_it():
            self._process.terminate()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdin:
            self._process.stdin.close()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Let it stand still while the block runs, with nothing that payments need in its hands."""
        wait_until(self._rest, "the thief has given back what it took")
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _rest(self) -> bool:
        self._process.send_signal(signal.SIGSTOP)
        if not (self.folder / "taken").exists():
            return True
        self._process.send_signal(signal.SIGCONT)
        return False

    def show(self, raw: bytes) -> None:
        """Show it one transaction as it is sent; returns when that may go on."""
        with self._showing:
            if raw not in self._shown_at:
                self._shown_at[raw] = time.monotonic()
                with _shown(self.folder).open("ab") as file:
                    file.write(json.dumps(base64.b64encode(raw).decode()).encode() + b"\n")
            goes_on_at = self._shown_at[raw] + _HELD_BACK_S
        if hashlib.sha256(raw).digest()[0] < _HELD_BACK:
            time.sleep(max(0.0, goes_on_at - time.monotonic()))


def _shown(folder: Path) -> Path:
    return folder / "shown.jsonl"


def _counts(folder: Path) -> Path:
    return folder / "counts.json"
