"""A long list is exported in constant memory. Source: issue 15, clause 5."""

import tracemalloc
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from foundation.kernel.ids import new_id
from tests.support.factories import make_agent

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
# Rows of the size that entries have in life.
ROWS = """
    INSERT INTO ledger_logentry (id, agent_id, service, amount, asset, result, rule, created_at, reason, metadata_json,
                                 policy_revision, explanation_json, hash, previous_hash, signature, key_id, spent_total)
    SELECT id, %s, 's', '1.25', 'USDC', 'blocked', 'under_daily_limit', at, 'r', '{"invoice":"INV"}', 1,
           '{"message":"' || repeat('x', 300) || '"}', '', '', '', '', 0
      FROM unnest(%s::text[], %s::timestamptz[]) rows(id, at)
"""


@pytest.mark.parametrize("file_format", ["csv", "jsonl"])
def test_six_times_as_many_rows_take_no_more_memory(auditor, file_format):
    peaks = {}
    for count in (2_000, 12_000):
        agent = make_agent()
        times = [BEGAN + timedelta(seconds=second) for second in range(count)]
        with connection.cursor() as cursor:
            cursor.execute(ROWS, [agent.pk, [new_id("log", at) for at in times], times])
        response = auditor.get("ledger_logentry_changelist", export=file_format, agent=agent.pk)
        tracemalloc.start()
        lines = sum(part.count(b"\n") for part in response.streaming_content)
        peaks[count] = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert lines == count + (file_format == "csv")

    assert peaks[12_000] < 1.5 * peaks[2_000]
