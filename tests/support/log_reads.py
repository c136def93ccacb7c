"""Entries for the log, and reads of it."""

from datetime import timedelta

from foundation.kernel.errors import ContractError
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from tests.support.factories import decide


def fill(agent, service, count, *, start=None):
    """Make so many entries, every third of them blocked; return their ids, newest first."""
    # Newer than what tests with real commits left behind.
    start = start or utc_now()
    for number in range(count):
        amount = "10.01" if number % 3 == 2 else "0.01"
        try:
            decide(agent, service, amount, at=start + timedelta(milliseconds=number // 2))
        except ContractError:
            assert number % 3 == 2
    entries = LogEntry.objects.filter(agent=agent)
    assert len(entries) == count
    return [entry.id for entry in entries.order_by("-id")]


def ids(response):
    assert response.status_code == 200, response.content
    return [entry["id"] for entry in response.json()["data"]]
