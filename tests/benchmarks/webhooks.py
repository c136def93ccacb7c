"""`make bench-webhooks`: deliveries per second to 1,000 endpoints, none of which hangs, then 10 % of which hang.

Those accept the connection, take the request and never answer. Everything is real: events are rows, committed durably;
a worker with two processes and beat, as the Procfile starts them, claims, signs, sends over plain HTTP to receivers in
another process, and records. Counted are deliveries to endpoints that answer, from the first attempt to the last
record. Next to it, in the same run: as many POSTs by two bare aiohttp processes to the same receivers, with no database
and no signatures. On this machine all of them share the processors, so that the ratios say more than the numbers.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import requests

from tests.benchmarks.apart import measure_apart
from tests.benchmarks.figures import Figure, figure, ratio

if TYPE_CHECKING:
    from tests.benchmarks.workers import Workers

_POLL_S = 0.2
_PATIENCE_S = 300
_PROCESSES = 2
_AT_ONCE = 256


def main() -> None:
    """Read what to measure, and measure it in an installation of its own."""
    parser = argparse.ArgumentParser(prog="make bench-webhooks", description=__doc__)
    parser.add_argument("--endpoints", type=int, default=1000, help="Endpoints (default: 1000).")
    parser.add_argument("--hanging", type=int, default=10, help="Per cent of them that hang (default: 10).")
    parser.add_argument("--events", type=int, default=8, help="Events for each endpoint (default: 8).")
    parser.add_argument("--rounds", type=int, default=3, help="Turns that each side has (default: 3).")
    options = parser.parse_args()
    measure_apart("tests.benchmarks.webhooks", measure, options, WEBHOOKS_ALLOW_PRIVATE="true")


def measure(options: argparse.Namespace) -> dict[str, Figure]:
    """Deliver in turns with bare POSTs, then once beside endpoints that hang; returns the figures by name."""
    from tests.benchmarks.workers import Workers

    count, hanging = options.endpoints * options.events, options.endpoints * options.hanging // 100
    with _receivers() as port:
        print(f"Making {options.endpoints} payees ...", flush=True)
        payees = _make_payees(options.endpoints, port)
        with Workers("webhooks", _PROCESSES) as workers:
            _deliver(payees, 1, workers)  # each has answered once: what is new gets one delivery at a time
            print(f"\n{'':<26}  {'delivered':>9}  {'per second':>10}  {'of bare':>7}  {'worker ms each':>14}")
            bare, rates, costs_ms = [], [], []
            for _ in range(options.rounds):
                bare.append(_post(port, count, options.endpoints))
                print(f"{'bare POSTs':<26}  {count:>9}  {bare[-1]:>10.0f}  {1:>7.2f}", flush=True)
                rate, cost_ms = _deliver(payees, options.events, workers)
                rates.append(rate)
                costs_ms.append(cost_ms)
                _print_row("none hangs", count, rate, bare[-1], cost_ms)
            each_ms = {"worker": figure(costs_ms)["median"]}
            sides = {"bare_posts": {"per_second": figure(bare), "processor_ms": {}}}
            figures = {"webhooks_of_bare": ratio(rates, bare, per_second=figure(rates), processor_ms=each_ms, **sides)}
            if hanging:
                _ask(port, f"/hang/{hanging}")
                slowed, cost_ms = _deliver(payees, options.events, workers, hanging)
                delivered = count - hanging * options.events
                _print_row(f"{hanging} of {options.endpoints} hang", delivered, slowed, bare[-1], cost_ms)
                figures["webhooks_beside_hanging"] = ratio([slowed], [rates[-1]])
                print(f"\nBeside those that hang, the others get {slowed / rates[-1]:.2f} of what they get alone.")
    return figures


def _print_row(name: str, delivered: int, rate: float, bare: float, cost_ms: float) -> None:
    print(f"{name:<26}  {delivered:>9}  {rate:>10.0f}  {rate / bare:>7.2f}  {cost_ms:>14.2f}", flush=True)


@contextmanager
def _receivers() -> Iterator[int]:
    command = [sys.executable, "-m", "tests.benchmarks.webhook_receiver"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


def _make_payees(count: int, port: int) -> list[str]:
    from tests.support.factories import make_service

    return [make_service(webhook_url=f"http://127.0.0.1:{port}/{number}").id for number in range(count)]


def _deliver(payees: Sequence[str], events: int, workers: "Workers", hanging: int = 0) -> tuple[float, float]:
    """Have events told to all payees, of whom the first hang; returns those told per second, and the cost in ms.

    The cost is the workers' processor time for each that was told, attempts at those that hang included.
    """
    from django.db.models import Max, Min

    from services.models import WebhookAttempt, WebhookDelivery

    used_s, began = workers.processor_s(), time.monotonic()
    told = WebhookDelivery.objects.filter(pk__in=_write_events(payees, events)[hanging * events :])
    while told.filter(state="delivered").count() < len(payees[hanging:]) * events:
        workers.check()
        if time.monotonic() - began > _PATIENCE_S:
            raise RuntimeError("Not all events are delivered.")
        time.sleep(_POLL_S)
    cost_ms = 1000 * (workers.processor_s() - used_s) / told.count()
    first = WebhookAttempt.objects.filter(delivery__in=told).aggregate(Min("started_at"))["started_at__min"]
    last = told.aggregate(Max("delivered_at"))["delivered_at__max"]
    return told.count() / (last - first).total_seconds(), cost_ms


def _write_events(payees: Sequence[str], events: int) -> list[str]:
    import json

    from foundation.kernel.ids import new_id
    from foundation.kernel.times import format_instant, utc_now
    from services.models import WebhookEvent

    now = utc_now()
    rows = []
    for payee in payees:
        for _ in range(events):
            event_id, kind = new_id("evt", now), "payment.approved"
            data = {
                "service": payee,
                "amount": "0.01",
                "asset": "USDC",
                "reason": "bench",
                "metadata": {"n": "1" * 300},
            }
            payload = json.dumps({"id": event_id, "type": kind, "timestamp": format_instant(now), "data": data})
            rows.append(WebhookEvent(id=event_id, service_id=payee, type=kind, payload=payload, created_at=now))
    WebhookEvent.objects.bulk_create(rows)
    return [row.pk for row in rows]


def _post(port: int, count: int, payees: int) -> float:
    """Post as often by two processes without anything else; returns POSTs per second."""
    command = [sys.executable, "-m", "tests.benchmarks.webhook_posts", str(port), str(count // _PROCESSES)]
    posting = [
        subprocess.Popen([*command, str(payees), str(_AT_ONCE)], stdout=subprocess.PIPE, text=True)
        for _ in range(_PROCESSES)
    ]
    times = [[float(word) for word in one.communicate()[0].split()] for one in posting]
    if any(one.returncode for one in posting):
        raise RuntimeError("The bare POSTs failed.")
    return count / (max(end for _, end in times) - min(began for began, _ in times))


def _ask(port: int, path: str) -> None:
    requests.get(f"http://127.0.0.1:{port}{path}", timeout=10).raise_for_status()


if __name__ == "__main__":
    main()
