"""From request to settled for a while, everything on one machine: payers ask as fast as settlement keeps up.

While more than so many payments wait to be settled, nobody asks. So what is measured can go on for ever: the backlog
is as long in the end as in the beginning.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.benchmarks.load import Make, converse, payments

if TYPE_CHECKING:
    from tests.benchmarks.seed import Cast

MOST_WAITING = 2000
_WARM_UP_S = 10
_POLL_S = 0.1


def sustain(port: int, cast: "Cast", *, connections: int, seconds: float) -> dict[str, float]:
    """Pay for so long; return payments settled per second, and how many waited at the beginning and at the end.

    Raises:
        RuntimeError: a payment was refused; shows the answer.
    """
    from payments.models import Payment

    may_ask, is_over = threading.Event(), threading.Event()
    makes = [
        _gated(payments(cast.key, cast.service, cast.agents[number::connections] or cast.agents), may_ask)
        for number in range(connections)
    ]
    with ThreadPoolExecutor(2) as pool:
        gate = pool.submit(_keep_gate, may_ask, is_over)
        payers = pool.submit(converse, port, makes, seconds=_WARM_UP_S + seconds)
        try:
            time.sleep(_WARM_UP_S)
            began, waited, had = time.perf_counter(), _count_waiting(), Payment.objects.filter(status="settled").count()
            time.sleep(seconds)
            settled, elapsed = Payment.objects.filter(status="settled").count() - had, time.perf_counter() - began
            waiting = _count_waiting()
            payers.result()
        finally:
            is_over.set()
        gate.result()
    # What comes next has the machine for itself.
    while _count_waiting():
        time.sleep(_POLL_S)
    return {"sustained_per_s": settled / elapsed, "waiting_before": waited, "waiting_after": waiting}


def _gated(make: Make, may_ask: threading.Event) -> Callable[[int], bytes]:
    def make_in_turn(number: int) -> bytes:
        may_ask.wait()
        return make(number)

    return make_in_turn


def _keep_gate(may_ask: threading.Event, is_over: threading.Event) -> None:
    from django.db import connection

    try:
        while not is_over.is_set():
            if _count_waiting() > MOST_WAITING:
                may_ask.clear()
            else:
                may_ask.set()
            is_over.wait(_POLL_S)
    finally:
        may_ask.set()
        connection.close()


def _count_waiting() -> int:
    from payments.models import Payment

    return Payment.objects.filter(status="approved").count()
