"""A run is killed while it removes rows: each is in the database or in a complete file, and the next run goes on."""

import gzip
import json
import subprocess
import sys
from datetime import timedelta

import pytest
from django.conf import settings
from django.db import connection, transaction

from foundation.database import fetch_rows
from foundation.kernel.times import utc_now
from services.models import DeliveryState, WebhookEvent
from tests.crash.installation import wait_until
from tests.support.commands import run
from tests.support.house import server_environment
from tests.support.webhook_rows import make_delivery, make_endpoint

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(10)]

_IS_WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%%WITH over AS%%'"


def _is_waiting():
    fetch_rows("SELECT pg_stat_clear_snapshot()", {})  # else a transaction sees the same each time
    return fetch_rows(_IS_WAITING, {})


def test_a_run_that_is_killed_in_the_middle_is_finished_by_the_next_one(tmp_path):
    endpoint, then = make_endpoint(), utc_now() - timedelta(days=100)
    made = {make_delivery(endpoint, at=then, state=DeliveryState.DELIVERED).pk for _ in range(3)}
    events = WebhookEvent.objects.filter(pk__in=made)
    command = ("manage.py", "archive", "--to", str(tmp_path), "--older-than", "90")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE services_webhookevent IN SHARE MODE")  # it can be read, and nothing removed
        with (tmp_path / "told.log").open("wb") as told:
            process = subprocess.Popen(
                [sys.executable, *command], env=server_environment(), cwd=settings.BASE_DIR, stdout=told, stderr=told
            )
        try:
            wait_until(lambda: _is_waiting() or process.poll() is not None, "it removes rows")
        finally:
            process.kill()
            process.wait()
    assert events.count() == 3, (tmp_path / "told.log").read_text()
    (file,) = tmp_path.glob("deliveries-*.jsonl.gz")
    with gzip.open(file, "rt", encoding="utf-8") as rows:
        assert {json.loads(row)["key"] for row in rows} == made

    lines, error = run(*command[1:])

    assert error is None, error
    assert not events.exists()
    assert [*tmp_path.glob("deliveries-*")] == [file]
    assert json.loads(lines[-1])["removed"]["deliveries"] == 3
