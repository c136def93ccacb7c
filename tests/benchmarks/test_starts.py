"""Each benchmark starts, measures and ends with its table: one that no longer starts is seen the same day."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import apart
from tests.benchmarks.report import ROWS
from tests.support.javascript import needs_node

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.long(100), needs_node]


def run(module: str, *arguments: str) -> str:
    """Run a benchmark as from a terminal: it finds none of the tests' servers, whose chains have a history."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_everything_that_is_promised_about_speed_is_measured_and_shown():
    shown = run("tests.benchmarks", "--short")

    # What needs a cluster has a run of its own: tests/benchmarks/citus.py.
    asked = [row for name, row in ROWS.items() if not name.startswith("citus_")]
    assert [row.title for row in asked if row.title not in shown] == []
    assert "Who holds the GIL in a web process" in shown


def test_signing_is_measured_on_each_chain_beside_the_evm():
    shown = run("tests.benchmarks.signing", "--payments", "2", "--rounds", "1")

    assert [line.split(",")[0] for line in shown.splitlines()[-6:]] == ["EVM", *["Solana"] * 5]


def test_a_part_that_fails_says_why():
    with pytest.raises(RuntimeError, match=r"money_path failed: .*invalid float value: 'soon'"):
        apart.run("tests.benchmarks.money_path", ["--seconds", "soon"])
