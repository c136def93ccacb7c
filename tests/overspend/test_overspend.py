"""Every scenario of `make overspend`, as short as it can be, and that leaks are noticed."""

import json
import subprocess
import sys

import pytest

from tests.overspend.names import TITLES
from workshop.localnet.folder import ROOT

pytestmark = pytest.mark.long(130)

SEED = 7
# A hanging run ends by itself before: each of its waits has a limit of its own.
_LIMIT_S = 1_800


def test_nobody_spends_more_than_allowed_whatever_goes_wrong_meanwhile(tmp_path):
    command = [sys.executable, "-m", "tests.overspend", "--short", "--seed", str(SEED), "--folder", tmp_path]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False)

    assert run.returncode == 0, run.stdout + run.stderr
    report = json.loads(run.stdout.splitlines()[-1])
    assert [one["name"] for one in report["scenarios"]] == list(TITLES)
    assert {one["overspend"] for one in report["scenarios"]} == {"0.00"}
    assert all(one["inTheLog"] == one["decided"] > 0 for one in report["scenarios"])
    assert report["controlsNoticed"] == dict.fromkeys(("lock", "windows", "levels", "calendar", "records"), True)
