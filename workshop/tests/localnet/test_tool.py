"""`python -m workshop.localnet`: a tool of its own, which knows nothing of the product."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.installation import wait_until
from workshop.localnet.folder import ROOT

FAUCETS = ("--evm-faucet", f"0x{'ab' * 20}", "--solana-faucet", "4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi")
# Names that hold the word in databases, in files and in what nodes answer: they stay as they are.
KEPT = {
    'DATABASE = "allowance"',
    '# base58(sha256(b"allowance solana-localnet")): every local chain has it, no public one ever will.',
    'CLIENT_VERSION = "allowance-localnet/1 (py-evm)"',
    '_OFFSET_KEY = b"allowance:time-offset-s"',
    'return Path("/tmp") / f"allowance-{os.geteuid()}-{digest}"  # noqa: S108 - ownership is checked',
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "data"
    _run("stop", tmp_path / "data")


def _run(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    arguments = [sys.executable, "-m", "workshop.localnet", command]
    environment = {**os.environ, "EMBEDDED_DIR": str(folder)}
    return subprocess.run(arguments, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)


def test_no_line_has_a_word_of_the_product():
    words = re.compile(r"relayer|escrow|allowance|payment|payee|webhook|policy|\bagent", re.IGNORECASE)
    files = [path.read_text() for path in (ROOT / "workshop/localnet").rglob("*.py")]
    lines = {line.strip() for text in files for line in text.splitlines()}

    assert {line for line in lines if words.search(line)} == KEPT


def test_it_starts_lists_and_stops_the_servers(folder):
    assert _run("status", folder).stdout.count("not running") == 4
    command = [sys.executable, "-m", "workshop.localnet", "start", *FAUCETS]
    log = folder.with_name("log")
    with log.open("w") as output:
        process = subprocess.Popen(command, env={**os.environ, "EMBEDDED_DIR": str(folder)}, cwd=ROOT, stdout=output)
    try:
        wait_until(lambda: "the Solana node: http" in log.read_text(), "the servers run")
        listed = _run("status", folder).stdout

        assert re.findall(r"^(?:the )?(\w+)", listed, re.MULTILINE) == ["PostgreSQL", "Redis", "EVM", "Solana"]
        assert "not running" not in listed
        assert _run("stop", folder).returncode == 1, "a process claims them"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    assert _run("status", folder).stdout.count("not running") == 4
