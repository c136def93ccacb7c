"""A later release changes tables that are spread over several servers."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection

from foundation import groups
from foundation.database import fetch_rows, write_rows

pytestmark = pytest.mark.long(60)
# Of a group, on every server, and with a copy in each group.
TABLES = ("policy_agent", "services_service", "payments_chainstate")


def test_a_column_that_a_release_adds_is_there_on_all_servers_once_groups_are_opened_again(house):
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} ADD COLUMN note text NOT NULL DEFAULT 'as ever'")
    write_rows("UPDATE payments_chainstate SET note = 'new'", {})

    call_command("migrate", verbosity=0)  # functions are installed each time
    call_command("distribute", stdout=StringIO(), stderr=StringIO())

    for table, note in zip(TABLES, ("as ever", "as ever", "new"), strict=True):
        found = groups.read_of(None, lambda: fetch_rows(f"SELECT DISTINCT note FROM {table}", {}))  # noqa: B023, S608
        assert set(found) <= {(note,)}, table
        assert found or table == "policy_agent"
