"""Anvil, Foundry's EVM node, as a process of its own."""

import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from chains.contracts.node_packages import install

# Of the first account that every anvil gives coins to: public, good for nothing elsewhere.
FUNDED_KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
IS_LOCKED_HERE = (sys.platform, platform.machine()) == ("linux", "x86_64")
has_program = pytest.mark.skipif(not IS_LOCKED_HERE, reason="anvil is locked for Linux on x86-64 only")
FOLDER = Path(__file__).parent / "anvil"
_PROGRAM = "node_modules/@foundry-rs/anvil-linux-amd64/bin/anvil"
_OPTIONS = (
    "--port", "0",  # one that is free
    "--slots-in-an-epoch", "1",  # a block is final under two others, not under 64
)  # fmt: skip
# For tests.
BY_HAND = (
    "--no-mining",  # what is sent waits, as on a real chain, until a test lets a block be made
    "--block-base-fee-per-gas", "7",  # where empty blocks take it in the end: tests compare before and after
)  # fmt: skip
# As the embedded node does.
EACH_SECOND = ("--block-time", "1")
# However the tests end, killed or not; every Linux that has glibc has this program.
_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_START_S = 60


@contextmanager
def running_anvil(blocks: Sequence[str] = BY_HAND) -> Iterator[str]:
    """Run a node with a chain of its own; yields its URL. `blocks`: the options that say when it makes them.

    Raises:
        NodeUnavailable: npm is missing, or cannot install it.
    """
    program = install(FOLDER) / _PROGRAM
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "log"
        with log.open("wb") as output:
            # Neither settings nor states of somebody's own anvil are for this one.
            process = subprocess.Popen(
                [*_WITH_US, program, *_OPTIONS, *blocks], stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                cwd=folder, env={"PATH": os.defpath, "HOME": folder},
            )  # fmt: skip
        try:
            yield f"http://127.0.0.1:{_port(process, log)}"
        finally:
            process.kill()  # nothing of it is kept
            process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + _START_S
    while not (found := re.search(r"^Listening on 127\.0\.0\.1:(\d+)$", log.read_text(), re.MULTILINE)):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)
    return found[1]
