"""Runs the programs of TypeScript's makers."""

import os
import subprocess

from tests.support.fake_chain import PATIENCE_S
from workshop.localnet.folder import ROOT

CLIENT = ROOT / "clients/typescript"


def run(command, *, is_ok=True, cwd=None, env=None):
    """Run a program; return what it wrote. `is_ok` None: it may fail."""
    return say(command, is_ok=is_ok, cwd=cwd, env=env)[0]


def say(command, *, is_ok=True, cwd=None, env=None):
    """Run a program; return what it wrote to its output and to its error output."""
    settings = {
        **(env or os.environ),
        "REDOCLY_TELEMETRY": "off",
        "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        command, cwd=cwd, env=settings, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=6 * PATIENCE_S,
    )  # fmt: skip
    assert is_ok is None or done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr
