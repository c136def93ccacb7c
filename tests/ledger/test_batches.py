"""What is too much to be held at once is read in batches, each row once and in order."""

import pytest

from foundation.database import in_batches
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from tests.support.factories import decide

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 100])
def test_rows_of_one_moment_are_read_once_each_whatever_the_size_of_a_batch(agent, service, size):
    now = utc_now()
    ids = [decide(agent, service, at=now).id for _ in range(4)]
    entries = LogEntry.objects.filter(agent=agent)

    assert [entry.id for entry in in_batches(entries, "created_at", size=size)] == sorted(ids)
    assert [entry.id for entry in in_batches(entries, "id", size=size)] == sorted(ids)


def test_of_nothing_there_is_no_batch(agent):
    assert list(in_batches(LogEntry.objects.filter(agent=agent), "id")) == []
