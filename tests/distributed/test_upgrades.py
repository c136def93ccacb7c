"""A later release changes tables that are spread over several servers."""

from io import StringIO

import pytest
from django.core.management import call_command
from django.db import connection

from foundation import groups
from foundation.database import fetch_rows, write_rows
from tests.support.factories import make_agent

pytestmark = pytest.mark.long(60)
# Of a group, on every server, and with a copy in each group.
TABLES = ("policy_agent", "services_service", "payments_chainstate")


# As `migrate` installs it.
_INSTALLED = """
    BEGIN; SET LOCAL citus.enable_ddl_propagation = off;
    CREATE FUNCTION note_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.note = 'written'; RETURN NEW; END $$;
    CREATE TRIGGER note_it BEFORE UPDATE ON policy_agent FOR EACH ROW EXECUTE FUNCTION note_it(); COMMIT;
"""


def test_columns_and_triggers_that_a_release_adds_are_there_once_groups_are_opened_again(house):
    with connection.cursor() as cursor:
        for table in TABLES:
            cursor.execute(f"ALTER TABLE {table} ADD COLUMN note text NOT NULL DEFAULT 'as ever'")
        cursor.execute(_INSTALLED)
    write_rows("UPDATE payments_chainstate SET note = 'new'", {})

    call_command("migrate", verbosity=0)  # functions are installed each time
    call_command("distribute", stdout=StringIO(), stderr=StringIO())

    for table, note in zip(TABLES, ("as ever", "as ever", "new"), strict=True):
        found = groups.read_of(None, lambda: fetch_rows(f"SELECT DISTINCT note FROM {table}", {}))  # noqa: B023, S608
        assert set(found) <= {(note,)}, table
        assert found or table == "policy_agent"
    agent = make_agent()
    with groups.within_group_of(agent.pk):
        agent.save()
        assert fetch_rows("SELECT note FROM policy_agent WHERE id = %(pk)s", {"pk": agent.pk}) == [("written",)]
