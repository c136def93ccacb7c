"""docs/operate/deploying.md is followed word for word, on a bare Debian machine, to the first settled payment."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from chains.contracts.node_packages import NodeUnavailable, install
from tests.chains.adapter.anvil_node import FOLDER, has_program
from tests.documents.pages import ROOT, files

pytestmark = [pytest.mark.hard, pytest.mark.long(90), has_program]
PAGE = "docs/operate/deploying.md"
# Namespaces of its own: mounts, network and processes end with it.
_APART = ("unshare", "--mount", "--net", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
_PACKAGES = ("postgresql", "redis-server", "git", "curl", "jq", "openssl", "adduser", "iproute2")


def test_whoever_follows_the_page_makes_a_payment_that_settles(tmp_path):
    _insist_on_a_machine()
    _commit(tmp_path / "source")

    done = subprocess.run(
        [*_APART, sys.executable, "-m", "tests.deployment.machine", PAGE, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    ended = json.loads(done.stdout.splitlines()[-1])
    assert ended["status"] == 0, f"{ended['said']}\n{ended['logs']}"
    assert ended["paid"] == 250_000
    assert '{"errors": 0, ' in ended["said"]
    assert "Traceback" not in ended["said"] + ended["logs"]


def _insist_on_a_machine() -> None:
    """Skip where this is no such machine; in CI all is installed."""
    missing = [name for name in _PACKAGES if _fails("dpkg-query", "--show", name)]
    if _fails(*_APART, "true"):
        pytest.skip("needs the right to make namespaces (root)")
    try:
        install(FOLDER)
    except NodeUnavailable as error:
        missing.append(str(error))
    if missing and "CI" not in os.environ:
        pytest.skip(f"needs {', '.join(missing)}")
    assert not missing


def _fails(*command: str) -> bool:
    if shutil.which(command[0]) is None:
        return True
    return subprocess.run(command, capture_output=True, check=False).returncode != 0


def _commit(folder) -> None:
    """Make a repository of what is here."""
    for name in files():
        if not (ROOT / name).exists():
            continue  # what another test had there for a moment
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    git = ["git", "-c", "user.name=A test", "-c", "user.email=test@example.com"]
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "All of it"]):
        subprocess.run([*git, *command], cwd=folder, check=True)
