"""Commands whose reader has gone, and commands that are interrupted: they end like other programs, without a trace."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection, transaction

from policy.models import Agent, AgentStatus
from tests.support.factories import make_agent
from tests.support.house import server_environment
from tests.support.kills import wait_until

_SIGPIPE, _SIGINT = 128 + signal.SIGPIPE, 128 + signal.SIGINT


@contextmanager
def command(*arguments: str, output: int, errors: Path) -> "Iterator[subprocess.Popen[bytes]]":
    with errors.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            env=server_environment(),
            cwd=settings.BASE_DIR,
            stdout=output,
            stderr=file,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=60)


@pytest.fixture
def unread() -> Iterator[int]:
    """A pipe whose reader has gone: `| true`."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@pytest.mark.usefixtures("committed")
def test_a_command_whose_output_nobody_reads_finishes_what_it_changes(tmp_path, unread):
    agent = make_agent()
    with command("pause_agent", agent.id, output=unread, errors=tmp_path / "errors") as process:
        status = process.wait(timeout=120)

    assert (status, (tmp_path / "errors").read_text()) == (_SIGPIPE, "")
    assert Agent.objects.get(pk=agent.id).status == AgentStatus.PAUSED


@pytest.mark.parametrize(("command", "ends"), [("demo", True), ("pause_agent", False)])
def test_what_would_run_for_ever_ends_with_its_reader_and_what_changes_something_does_not(unread, command, ends):
    outlive = (
        f"from allowance.pipes import outlive_readers; outlive_readers(['{command}']); print('a line', flush=True)"
    )
    process = subprocess.run(
        [sys.executable, "-c", f"{outlive}; import os; os.write(2, b'went on')"],
        stdout=unread, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip

    assert (process.returncode == _SIGPIPE, process.stderr == b"went on") == (ends, not ends)


@pytest.mark.usefixtures("committed")
def test_a_command_that_is_interrupted_says_nothing_and_changes_nothing(tmp_path):
    agent = make_agent()
    with transaction.atomic():
        Agent.objects.select_for_update().get(pk=agent.id)
        with command("pause_agent", agent.id, output=subprocess.DEVNULL, errors=tmp_path / "errors") as process:
            wait_until(_somebody_waits_for_a_lock, "the command waits for the agent")
            process.send_signal(signal.SIGINT)
            status = process.wait(timeout=120)

    assert (status, (tmp_path / "errors").read_text()) == (_SIGINT, "")
    assert Agent.objects.get(pk=agent.id).status == AgentStatus.ACTIVE


def _somebody_waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted)")
        return bool(cursor.fetchone()[0])
