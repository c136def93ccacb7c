"""Celery's workers as real processes, with nobody to ring for them but the test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.house import House

PROCESSES = 2
# Of both queues, as one starts it by hand: the Procfile has a worker for each.
BY_HAND = ("celery", "--app", "allowance", "worker", "--loglevel", "INFO", "--concurrency", str(PROCESSES))


@contextmanager
def worker(logs: Path, line: str = "", **variables: str) -> Iterator[House]:
    """Run a worker of two processes until the block ends; it writes `worker.log`, or what the line is called.

    `line`: the one of the Procfile that it is, `worker` or `webhooks`; none: a worker of both queues.
    """
    with House(logs) as house:
        if line:
            counts = {"WORKER_CONCURRENCY": str(PROCESSES), "WEBHOOK_CONCURRENCY": str(PROCESSES)}
            house.start(line, **counts, **variables)
        else:
            house.run("worker", *BY_HAND, **variables)
        house.wait_for(line or "worker")
        yield house
