"""A waiting room that is full."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from payments.api.waiting import WaitingRoom
from tests.support.fake_chain import PATIENCE_S


@contextmanager
def full(room: WaitingRoom, places: int) -> Iterator[None]:
    """Let so many others wait in a room."""
    inside, leaving = threading.Barrier(places + 1, timeout=PATIENCE_S), threading.Event()

    def stay() -> bool:
        inside.wait()
        return leaving.wait(PATIENCE_S)

    with ThreadPoolExecutor(places) as others:
        waiting = [others.submit(room.wait, stay, 1) for _ in range(places)]
        inside.wait()
        yield
        leaving.set()
    assert [one.result() for one in waiting] == [True] * places
