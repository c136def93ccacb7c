"""Whether a server runs is told by a lock, which a process that is just being started may hold for a moment, too."""

import fcntl
import os
import sys
import threading
import time

import pytest

from workshop.localnet.daemon import Daemon
from workshop.localnet.errors import LocalnetError

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]


@pytest.fixture
def daemon(tmp_path):
    made = Daemon("a server", tmp_path)
    yield made
    made.stop()


def hold_for(seconds, path):
    """Hold the lock as a child of another thread does that is not another program yet."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)

    def let_go():
        time.sleep(seconds)
        os.close(descriptor)

    threading.Thread(target=let_go).start()


def test_a_lock_that_is_held_for_a_moment_is_no_server(daemon, tmp_path):
    hold_for(0.06, tmp_path / "running")
    assert not daemon.is_running()


def test_a_server_is_started_though_its_lock_is_held_for_a_moment(daemon, tmp_path):
    hold_for(0.06, tmp_path / "running")
    daemon.start(SLEEP, variables={})
    assert daemon.is_running()


def test_a_server_that_runs_is_not_started_again(daemon):
    daemon.start(SLEEP, variables={})
    with pytest.raises(LocalnetError, match="a server is running already"):
        daemon.start(SLEEP, variables={})
    daemon.stop()
    assert not daemon.is_running()
