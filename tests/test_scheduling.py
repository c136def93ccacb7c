"""How `make test` shares out the tests: tests/support/scheduling.py, with a small suite of its own."""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from workshop.localnet.folder import ROOT

# Says which worker ran what, in its order; a worker that is quick shall not run everything.
CONFTEST = """
import os, time
def pytest_runtest_logstart(nodeid):
    with open("ran", "a") as file:
        print(os.environ.get("PYTEST_XDIST_WORKER", "all"), nodeid, file=file)
    time.sleep(0.05)
"""
ROLLED_BACK = "import pytest\npytestmark = pytest.mark.rolled_back\n"
LONG = "import pytest\npytestmark = pytest.mark.long(60)\n"
TESTS = "\n".join(f"def test_{number}(): pass" for number in range(4)) + "\n"
MIXED = "import pytest\n@pytest.mark.rolled_back\ndef test_first(): pass\ndef test_last(): pass\n"


def test_what_leaves_nothing_behind_comes_first_and_those_who_wait_begin_with_what_takes_long(tmp_path: Path) -> None:
    files = {f"test_rolled_back_{number}.py": ROLLED_BACK + TESTS for number in range(6)}
    files |= {f"test_other_{number}.py": TESTS for number in range(6)}
    files |= {"test_z_long.py": LONG + TESTS, "test_mixed.py": MIXED, "conftest.py": CONFTEST}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    options = ["-p", "tests.support.scheduling", "-n", "3", "--waiting", "1", "--dist", "loadfile", "-q"]

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", tmp_path, "-p", "no:cacheprovider", *options],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert "54 passed" in done.stdout, done.stdout + done.stderr
    ran = defaultdict(list)
    for line in (tmp_path / "ran").read_text().splitlines():
        worker, test = line.split()
        ran[worker].append(test)
    is_first = {worker: ["rolled_back" in one or "first" in one for one in tests] for worker, tests in ran.items()}
    assert len(ran["all"]) == len({*ran["all"]}) == 54  # as the whole run tells them: each once, by its own name
    assert not any(is_first["gw2"])
    assert {one.split("::")[0] for one in ran["gw2"][:4]} == {"test_z_long.py"}
    for worker in ("gw0", "gw1"):
        assert is_first[worker] == sorted(is_first[worker], reverse=True)
        assert any(is_first[worker])
