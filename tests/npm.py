"""npm packages that tests use: those that a folder's lock names, installed once for each lock."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from allowance.embedded.folder import ROOT

NODE, NPM = shutil.which("node"), shutil.which("npm")
PATIENCE_S = 300
_IN_CI = bool(os.environ.get("CI"))
# A second try comes after 10 s, a third after 60 more: too long for who has no network.
_RETRIES = "2" if _IN_CI else "0"
# CI installs Node.js and may not go without; a newcomer's `make test` may.
needs_node = pytest.mark.skipif(
    (NODE is None or NPM is None) and not _IN_CI, reason="Node.js and npm are not installed"
)


def install(folder: Path) -> Path:
    """Install what a folder's lock names; returns the folder that has `node_modules`, one that git ignores.

    Skips the test where there is no network, except in CI.
    """
    files = [folder / "package.json", folder / "package-lock.json"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    installed = ROOT / ".cache" / f"{folder.name}-{digest}"
    if installed.exists():
        return installed
    installed.parent.mkdir(exist_ok=True)
    assert NPM, "npm is not installed"
    with tempfile.TemporaryDirectory(dir=installed.parent) as parent:
        made = Path(parent) / "made"
        made.mkdir()
        for file in files:
            shutil.copy(file, made)
        done = subprocess.run(
            [NPM, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries", _RETRIES],
            cwd=made, capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        if done.returncode and not _IN_CI:
            pytest.skip(f"npm cannot install what {folder.name} needs: is there a network?")
        assert done.returncode == 0, done.stderr.decode()
        try:
            made.rename(installed)
        except OSError:  # another run was faster
            assert installed.exists()
    return installed
