"""A process that is killed while it adds up leaves nothing half added."""

import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal

import pytest
from django.conf import settings
from django.db import connection

from backoffice.models import DailyTotal, RollUp
from backoffice.rollups import roll_up
from foundation.kernel.times import utc_now
from tests.support.factories import decide, make_agent, make_service
from tests.support.house import server_environment
from tests.support.kills import wait_until

_LOCK = 815_015
# It stands still behind the totals and before the record of how far they are.
_STOP = f"""
    CREATE FUNCTION stand_still() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN PERFORM pg_advisory_xact_lock({_LOCK}); RETURN NULL; END $$;
    CREATE TRIGGER stand_still AFTER INSERT ON backoffice_dailytotal FOR EACH STATEMENT EXECUTE FUNCTION stand_still();
"""
_RUN = """
from foundation.kernel.times import utc_now
from backoffice.rollups import roll_up
roll_up(utc_now())
"""


@pytest.fixture
def standing_still(committed: None) -> Iterator[None]:
    """Let whoever writes totals wait for ever."""
    with connection.cursor() as cursor:
        cursor.execute(_STOP)
        cursor.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        yield
        cursor.execute("SELECT pg_advisory_unlock_all()")
        cursor.execute("DROP TRIGGER IF EXISTS stand_still ON backoffice_dailytotal")
        cursor.execute("DROP FUNCTION stand_still")


def waits() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)")
        return bool(cursor.fetchone()[0])


def test_what_a_killed_process_was_adding_is_added_once(standing_still):
    DailyTotal.objects.all().delete()
    RollUp.objects.all().delete()
    agent, payee = make_agent(), make_service()
    for minutes in (90, 60, 30):
        decide(agent, payee, "2", at=utc_now() - timedelta(minutes=minutes))

    command = [sys.executable, "manage.py", "shell", "-v0", "-c", _RUN]
    process = subprocess.Popen(command, cwd=settings.BASE_DIR, env=server_environment())
    wait_until(waits, "the totals are written")
    process.kill()
    process.wait()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_unlock(%s)", [_LOCK])
    wait_until(lambda: not waits(), "the killed process' session has ended")
    assert not DailyTotal.objects.filter(agent=agent.id).exists()

    roll_up(utc_now())
    roll_up(utc_now())

    rows = DailyTotal.objects.filter(agent=agent.id)
    assert sum(row.count for row in rows) == 3
    assert sum(row.amount for row in rows) == Decimal(6)
