"""The wake-up of the broadcaster: prompt, never in anybody's way, and not to be lost for good."""

import threading

import pytest
from kombu.exceptions import OperationalError

from payments.settling.broadcast_notifier import BroadcastNotifier


class Broadcaster:
    """Remembers which chains it was woken for; fails the first time if it is told to."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.chains: list[str] = []
        self._failure = failure
        self._heard = threading.Semaphore(0)

    def wake(self, chain: str, _group: int | None) -> None:
        self.chains.append(chain)
        self._heard.release()
        if len(self.chains) == 1 and self._failure:
            raise self._failure

    def wait(self) -> None:
        assert self._heard.acquire(timeout=30)


def test_a_notification_wakes_the_broadcaster():
    broadcaster = Broadcaster()
    BroadcastNotifier(broadcaster.wake).notify("eip155:1")
    broadcaster.wait()
    assert broadcaster.chains == ["eip155:1"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("failure", [OperationalError("the broker is away"), RuntimeError("nobody expected this")])
def test_a_notification_that_failed_does_not_silence_the_next(failure):
    broadcaster = Broadcaster(failure)
    notifier = BroadcastNotifier(broadcaster.wake)
    notifier.notify("eip155:1")
    broadcaster.wait()
    if isinstance(failure, RuntimeError):  # its thread ends, as it does in a fork
        assert notifier._thread
        notifier._thread.join(timeout=30)

    notifier.notify("eip155:10")
    broadcaster.wait()
    assert broadcaster.chains == ["eip155:1", "eip155:10"]


def test_closing_sends_what_is_pending_and_ends_the_thread():
    broadcaster = Broadcaster()
    notifier = BroadcastNotifier(broadcaster.wake)
    notifier.notify("eip155:1")

    notifier.close()

    broadcaster.wait()
    assert notifier._thread
    notifier._thread.join(timeout=30)
    assert not notifier._thread.is_alive()


def test_a_notifier_that_was_never_used_has_nothing_to_close():
    BroadcastNotifier(Broadcaster().wake).close()
