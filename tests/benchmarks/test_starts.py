"""`make bench` starts, measures and ends with its table: a benchmark that no longer starts is seen the same day."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SMALL = ["--seconds", "0.2", "--rounds", "1", "--agents", "4"]

pytestmark = pytest.mark.long(40)


def test_the_money_path_is_measured_beside_a_plain_version_that_starts():
    command = [sys.executable, "-m", "tests.benchmarks", "--only", "plain", "lone", *SMALL]
    # As from a terminal: it finds no servers of the tests, whose chains have a history of their own.
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}

    done = subprocess.run(command, cwd=ROOT, env=environment, check=False, capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    for row in ("payments/s ÷ plain Django, 8 connections", "plain Django, 32 connections", "a lone payment, p50"):
        assert row in done.stdout
