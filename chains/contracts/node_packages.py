"""Install the npm packages that a lock file names, and run the scripts that need them."""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

_CACHE = Path(__file__).resolve().parents[2] / ".cache"
_PATIENCE_S = 300
# npm retries after 10 s, and again after 60 s: too long for a developer without a network.
_RETRIES = "2" if os.environ.get("CI") else "0"


class NodeUnavailable(Exception):
    """Node.js or npm is not installed, or npm cannot install: there may be no network."""


def install(manifest: Path) -> Path:
    """Install the packages of `package.json` and `package-lock.json` in `manifest`; returns their folder.

    Each lock file is installed once, in a folder that git ignores. Raises `NodeUnavailable`.
    """
    npm, _ = _find("npm"), _find("node")
    files = [manifest / "package.json", manifest / "package-lock.json"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]
    folder = _CACHE / f"{manifest.name}-{digest}"
    if folder.exists():
        return folder
    _CACHE.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE) as parent:
        made = Path(parent) / "made"
        made.mkdir()
        for file in files:
            shutil.copy(file, made)
        done = _run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries", _RETRIES], cwd=made)
        if done.returncode:
            raise NodeUnavailable(f"npm cannot install: {done.stderr.strip()}")
        try:
            made.rename(folder)
        except OSError:  # another run was faster
            if not folder.exists():
                raise
    return folder


def run_script(script: Path, *arguments: str | Path, question: Any) -> Any:
    """Run a script that reads JSON from standard input and prints JSON.

    Raises `NodeUnavailable`, and `RuntimeError` with the output of a script that fails.
    """
    done = _run([_find("node"), script, *arguments], text=json.dumps(question))
    if done.returncode:
        raise RuntimeError(f"{script.name} failed: {done.stderr.strip()}")
    return json.loads(done.stdout)


def _find(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise NodeUnavailable(f"{program} is not installed")
    return path


def _run(command: list[str | Path], *, cwd: Path | None = None, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - our own scripts and npm, with arguments made here
        command, cwd=cwd, input=text, encoding="utf-8", capture_output=True, timeout=_PATIENCE_S, check=False
    )
