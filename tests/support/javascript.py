"""Node.js for tests. CI installs it and may not go without; a newcomer's `make test` may."""

import os
import shutil
from pathlib import Path

import pytest

from chains.contracts.node_packages import NodeUnavailable, install

_IN_CI = bool(os.environ.get("CI"))
needs_node = pytest.mark.skipif(
    not _IN_CI and not (shutil.which("node") and shutil.which("npm")), reason="Node.js and npm are not installed"
)


def install_or_skip(manifest: Path) -> Path:
    """Install what the lock in a folder names and return where; skip the test where that is not possible."""
    try:
        return install(manifest)
    except NodeUnavailable as error:
        if _IN_CI:
            raise
        pytest.skip(str(error))
