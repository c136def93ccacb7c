"""Wait until a server answers, or say why it will not."""

import time
from collections.abc import Callable

from workshop.localnet.daemon import Daemon
from workshop.localnet.errors import LocalnetError

_POLL_S = 0.03


def wait_until_ready(daemon: Daemon, answers: Callable[[], bool], *, timeout_s: float) -> None:
    """Return when `answers` does. Raises `LocalnetError` with the log if the server has gone."""
    end = time.monotonic() + timeout_s
    while not answers():
        if not daemon.is_running():
            raise LocalnetError(f"{daemon.name} did not start:\n{daemon.end_of_log()}")
        if time.monotonic() > end:
            raise LocalnetError(f"{daemon.name} does not answer after {timeout_s:.0f} s:\n{daemon.end_of_log()}")
        time.sleep(_POLL_S)


def is_healthy(daemon: Daemon, answers: Callable[[], bool], *, timeout_s: float) -> bool:
    """Whether a server that somebody started before runs and answers.

    One that runs and does not answer in time is stopped.
    """
    if not daemon.is_running():
        return False
    try:
        wait_until_ready(daemon, answers, timeout_s=timeout_s)
    except LocalnetError:
        daemon.stop()
        return False
    return True
