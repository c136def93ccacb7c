"""PostgreSQL runs for root, for root in a folder of root's, and for everybody else."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from workshop.localnet import postgres
from workshop.localnet.account import Account
from workshop.localnet.folder import ROOT

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become others")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everyone may enter: pytest's own belong to the user of the test."""
    path = Path(tempfile.mkdtemp(dir="/var/tmp"))
    path.chmod(0o711)
    yield path
    shutil.rmtree(path)


def server_status(here):
    return Path(f"/proc/{here.pids()['postgres']}/status").read_text()


@needs_root
def test_root_runs_it_as_nobody_without_any_right_of_root(place, install):
    here = install(place / "data", only=["postgres"])
    process, _ = here.use()
    assert f"Uid:\t{NOBODY}" in server_status(here)
    # The wheel itself may lie where nobody cannot look.
    if not ROOT.parent.stat().st_mode & 0o001:
        pytest.skip("the checkout is in a closed folder itself")
    assert "CapEff:\t0000000000000000" in server_status(here)
    process.leave()


@needs_root
def test_root_keeps_one_right_for_it_in_a_closed_folder_with_a_long_path(place, install):
    closed = place / "closed"
    closed.mkdir(mode=0o700)
    here = install(closed / ("long" * 20), only=["postgres"])
    process, _ = here.use()
    assert closed.stat().st_mode & 0o777 == 0o700
    assert f"Uid:\t{NOBODY}" in server_status(here)
    assert "CapEff:\t0000000000000002" in server_status(here)
    assert here.sql("SELECT 1") == [(1,)]
    process.leave()
    here.use()[0].leave()
    assert here.pids() == {}
    postgres.socket_folder(here.folder).rmdir()


@needs_root
def test_root_keeps_it_for_programs_in_a_closed_folder_too(place):
    program = place / "closed/program"
    program.parent.mkdir(mode=0o700)
    # As PostgreSQL's own programs do before they start each other.
    program.write_text('#!/bin/sh\n[ -x "$0" ] || exit 1\ngrep CapEff /proc/self/status\n')
    program.chmod(0o755)
    account = Account.for_server(place, program)

    ran = subprocess.run(account.command(program), capture_output=True, text=True, check=True, **account.options)

    assert account.ignores_permissions
    assert ran.stdout == "CapEff:\t0000000000000002\n"


@needs_root
def test_an_ordinary_user_runs_it_and_another_cannot_connect(place, install):
    (place / "theirs").mkdir()
    os.chown(place / "theirs", NOBODY, NOBODY)
    # The interpreter may lie in /root: reading everything is not the right under test.
    read_only = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--securebits=+no_setuid_fixup"]
    theirs = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *read_only]
    here = install(place / "theirs/data", only=["postgres"], as_user=theirs)
    process, _ = here.use()
    assert f"Uid:\t{NOBODY}" in server_status(here)
    assert (place / "theirs/data").stat().st_mode & 0o777 == 0o700
    socket = str(postgres.socket_folder(here.folder))
    psql = [str(postgres.binary("psql")), "-U", "postgres", "-h", socket]
    other: dict[str, Any] = {"user": 12345, "group": 12345, "extra_groups": [], "cwd": "/"}
    try:
        refused = subprocess.run(
            [*psql, "-c", "SELECT 1", "allowance"],
            capture_output=True, text=True, check=False, **other,
        )  # fmt: skip
    except PermissionError:  # not even psql
        return
    finally:
        process.leave()
    assert "Permission denied" in refused.stderr
