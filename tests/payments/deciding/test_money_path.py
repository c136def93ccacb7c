"""What Python and the two SQL functions of the money path have to agree on."""

from dataclasses import fields

import pytest
from django.core.management import call_command
from django.db import connection

from payments.deciding.money_path import Locked


@pytest.mark.django_db
def test_the_facts_are_named_as_the_database_returns_them():
    with connection.cursor() as cursor:
        cursor.execute("SELECT proargnames FROM pg_proc WHERE proname = 'payments_lock_and_read_4'")
        (names,) = cursor.fetchone()
    assert [name for name in names if not name.startswith("p_")] == [field.name for field in fields(Locked)]


@pytest.mark.django_db
def test_the_functions_in_the_database_are_what_their_files_say(settings):
    for name, file in (
        ("payments_lock_and_read_4", "payments/deciding/sql/lock_and_read.sql"),
        ("payments_record", "payments/deciding/sql/record.sql"),
        ("payments_has_gas_money", "payments/deciding/sql/gas.sql"),
        ("payments_gas_since", "payments/deciding/sql/gas.sql"),
        ("ledger_spent_since", "ledger/sql/windows.sql"),
        ("ledger_fits_at", "ledger/sql/windows.sql"),
    ):
        with connection.cursor() as cursor:
            cursor.execute("SELECT prosrc FROM pg_proc WHERE proname = %s", [name])
            ((source,),) = cursor.fetchall()
        assert source.strip() in (settings.BASE_DIR / file).read_text()


@pytest.mark.django_db
def test_migrating_again_brings_an_old_function_up_to_date():
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE FUNCTION payments_record(p_entry json, p_payment json, p_settlement json, p_event json)"
            " RETURNS void LANGUAGE sql AS 'SELECT'"
        )
    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT prosrc FROM pg_proc WHERE proname = 'payments_record'")
        assert "INSERT INTO ledger_logentry" in cursor.fetchone()[0]
