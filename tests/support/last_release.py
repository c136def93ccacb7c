"""The last release of the product, from the history of this repository."""

import subprocess
from pathlib import Path

import pytest

from workshop.localnet.folder import ROOT

# Its version, and its commit, for nothing is tagged. Set both when a release is made.
LAST_VERSION, LAST_COMMIT = "0.2.0", "a5a91001b3ec224af9ce5c7cc0fde9a7871a3fa3"


def unpack_last_release(folder: Path) -> None:
    """Unpack its files; where there is no history, as in a shallow clone, skip."""
    archive = _ask_history("archive", LAST_COMMIT)
    folder.mkdir()
    subprocess.run(["tar", "-x", "-C", str(folder)], input=archive, check=True)


def files_of_last_release() -> list[str]:
    """List its files by their paths; skips as `unpack_last_release` does."""
    return _ask_history("ls-tree", "-r", "--name-only", LAST_COMMIT).decode().splitlines()


def _ask_history(*arguments: str) -> bytes:
    git = ["git", "-C", str(ROOT)]
    if subprocess.run([*git, "cat-file", "-e", LAST_COMMIT], capture_output=True, check=False).returncode:
        pytest.skip(f"This clone lacks {LAST_COMMIT[:7]}, release {LAST_VERSION}: git fetch --unshallow")
    return subprocess.run([*git, *arguments], stdout=subprocess.PIPE, check=True).stdout
