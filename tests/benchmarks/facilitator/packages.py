"""Install x402, with all that it needs, in a virtual environment of its own: nothing of it is for the product."""

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

LOCK = Path(__file__).parent / "requirements.txt"
_CACHE = Path(__file__).resolve().parents[3] / ".cache"
_PATIENCE_S = 600
# pip retries five times, and waits longer each time: too long for a developer without a network.
_RETRIES = "2" if os.environ.get("CI") else "0"
_OPTIONS = (
    "--quiet", "--disable-pip-version-check", "--no-input", "--no-deps", "--require-hashes", "--no-compile",
    "--retries", _RETRIES,
)  # fmt: skip


class PackagesUnavailable(Exception):
    """Pip cannot install: there may be no network."""


def install() -> Path:
    """Install what the lock names, once, in a folder that git ignores; returns the interpreter that has it.

    Raises:
        PackagesUnavailable: says why.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256(LOCK.read_bytes() + version.encode()).hexdigest()[:16]
    folder = _CACHE / f"facilitator-{digest}"
    # A virtual environment cannot be moved: a marker tells that it is whole.
    python, marker = folder / "bin/python", folder / ".installed"
    _CACHE.mkdir(exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # An interpreter that was removed since leaves a link to nowhere.
        if not (marker.exists() and python.exists()):
            print(f"Installing x402 into {folder.relative_to(_CACHE.parent)} (once; half a minute) ...", flush=True)
            _run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder])
            _run([sys.executable, "-m", "pip", "--python", python, "install", *_OPTIONS, "-r", LOCK])
            marker.touch()
    return python


def _run(command: list[str | Path]) -> None:
    # Elsewhere, so that no module of ours hides one of theirs.
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    if done.returncode:
        raise PackagesUnavailable(f"x402 cannot be installed: {(done.stderr or done.stdout).strip()}")
