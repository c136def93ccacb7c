"""How long the rehearsals wait: on a machine that does much else, everything takes its time."""

from collections.abc import Callable
from typing import Any

from tests.support.kills import wait_until

PATIENCE_S = 240
# Whoever looks costs the installation something, too.
_POLL_S = 0.25


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Wait for something that processes do, and return it. Raises TimeoutError, which names what."""
    return wait_until(condition, what, PATIENCE_S, poll_s=_POLL_S)
