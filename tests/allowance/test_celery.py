"""How a worker's processes end."""

from types import SimpleNamespace
from typing import Any

import billiard.pool

import allowance.celery  # noqa: F401 - what the worker imports


def test_a_process_whose_last_task_nobody_heard_of_ends_within_seconds(monkeypatch):
    waited: list[float] = []
    monkeypatch.setattr("billiard.pool.time.sleep", waited.append)
    process: Any = billiard.pool.Worker.__new__(billiard.pool.Worker)
    process.on_ready_counter = SimpleNamespace(value=0)

    assert process._ensure_messages_consumed(completed=1) is False
    assert 0 < sum(waited) < 3
