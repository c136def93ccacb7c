"""The crash test, as short as it can be: every kill point once, and some of the other faults."""

import subprocess
import sys

import pytest

from workshop.localnet.folder import ROOT

pytestmark = pytest.mark.long(250)

SEED = 7
# A hanging run ends by itself before: each of its waits has a limit of its own.
_LIMIT_S = 2_700


def test_money_arrives_once_or_comes_back_whatever_is_killed(tmp_path):
    command = [sys.executable, "-m", "tests.crash", "--short", "--seed", str(SEED), "--minutes", "0"]
    run = subprocess.run(
        [*command, "--folder", tmp_path], cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
