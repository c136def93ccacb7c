"""What Python and the two SQL functions of the money path have to agree on."""

from dataclasses import asdict, fields
from datetime import datetime
from decimal import Decimal
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

import pytest
from django.core.management import call_command
from django.db import connection

from foundation.kernel.times import LARGEST_SKEW
from payments.deciding.counted import CountedRecord, HeldRecord, PayeeCountedRecord
from payments.deciding.known import COLUMNS, RECORDS, VALUES, Known, make_known

# How columns are typed here, and there.
TYPES: dict[str, Any] = {
    "boolean": bool,
    "bytea": bytes,
    "integer": int,
    "bigint": int,
    "jsonb": str,
    "numeric": Decimal,
    "text": str,
    "character varying": str,
    "timestamp with time zone": datetime,
    "character varying[]": list[str],
    "timestamp with time zone[]": list[datetime | None],
    "numeric[]": list[Decimal | None],
}
# Records that are made of an array.
COUNTED: dict[Any, Any] = dict.fromkeys((CountedRecord, HeldRecord, PayeeCountedRecord), list[Decimal | None])
_COLUMNS_OF_FUNCTION = """
    SELECT name, type::regtype::text
      FROM pg_proc, unnest(proargnames, proargmodes, proallargtypes) AS found(name, mode, type)
     WHERE proname = 'payments_lock_and_read_11' AND mode = 'o'
"""
_COLUMNS_OF_TABLE = """
    SELECT attname, atttypid::regtype::text, attnotnull FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0
"""


def ask(statement, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(statement, parameters)
        return cursor.fetchall()


def types_of(record):
    """Tell the type of each field, and whether it may be None."""
    found = {}
    for name, hint in get_type_hints(record).items():
        types = get_args(hint) if isinstance(hint, UnionType) else (hint,)
        found[name] = (types[0], NoneType in types)
    return found


@pytest.mark.django_db
def test_the_facts_are_the_columns_of_the_sql_function():
    columns = dict(ask(_COLUMNS_OF_FUNCTION))

    first = [columns.pop(name) for name in ("place", "level", "api_key", "busy_root", "earlier_entry_id")]
    assert first == ["integer", "integer", "policy_apikey", "text", "text"]
    facts = types_of(Known)
    facts.pop("levels")  # rows of their own
    assert set(columns) == set(facts)
    assert list(facts) == [*VALUES, *RECORDS]
    for name in VALUES:
        assert TYPES[columns[name]] == COUNTED.get(facts[name][0], facts[name][0]), name
    for name, record in RECORDS.items():
        assert facts[name][0] is record, name


@pytest.mark.django_db
@pytest.mark.parametrize("name", RECORDS)
def test_a_record_has_columns_of_the_row_that_it_is_made_of(name):
    table = dict(ask(_COLUMNS_OF_FUNCTION))[name]
    columns = {
        column: (TYPES.get(found), not is_required) for column, found, is_required in ask(_COLUMNS_OF_TABLE, table)
    }

    wanted = types_of(RECORDS[name])

    assert wanted == {column: columns[column] for column in wanted}
    first = next(iter(wanted.values()))
    assert first[1] is False, "By its first column it is known whether there is such a row."


def test_a_row_that_was_not_found_is_no_record():
    found = make_known([None] * len(COLUMNS))

    assert (found.payee, found.payee_state, found.relayer, found.chain) == (None, None, None, None)


def test_columns_come_into_the_fields_they_are_named_after():
    row = [name if name not in ("counted", "payee_counted", "held") else None for name in COLUMNS]

    found: Any = make_known(row)

    assert (found.decided_at, found.relayer_in_need) == ("decided_at", "relayer_in_need")
    for name, record in RECORDS.items():
        assert asdict(getattr(found, name)) == {one.name: f"({name}).{one.name}" for one in fields(record)}


@pytest.mark.django_db
def test_the_functions_in_the_database_are_what_their_files_say(settings):
    for name, file in (
        ("payments_lock_and_read_11", "payments/deciding/sql/lock_and_read.sql"),
        ("payments_refusing_since", "payments/deciding/sql/facts.sql"),
        ("payments_is_ready", "payments/deciding/sql/relayers.sql"),
        ("payments_relayer_in_need", "payments/deciding/sql/relayers.sql"),
        ("payments_choose_relayer", "payments/deciding/sql/relayers.sql"),
        ("payments_see_relayer", "payments/deciding/sql/relayers.sql"),
        ("payments_record_batch", "payments/deciding/sql/record.sql"),
        ("payments_gas_left", "payments/deciding/sql/gas.sql"),
        ("payments_gas_room", "payments/deciding/sql/gas.sql"),
        ("payments_gas_since", "payments/deciding/sql/gas.sql"),
        ("payments_facts_of", "payments/deciding/sql/facts.sql"),
        ("payments_come_to", "payments/deciding/sql/facts.sql"),
        ("ledger_spent_window", "ledger/sql/windows.sql"),
        ("ledger_spent_since", "ledger/sql/windows.sql"),
        ("ledger_fits_at_3", "ledger/sql/windows.sql"),
        ("ledger_below_since", "ledger/sql/levels.sql"),
        ("ledger_payee_below_since", "ledger/sql/levels.sql"),
        ("ledger_count_above", "ledger/sql/levels.sql"),
        ("ledger_held", "ledger/sql/levels.sql"),
        ("ledger_tally_payment", "ledger/sql/tallies.sql"),
        ("ledger_counted_by", "ledger/sql/tallies.sql"),
        ("ledger_spent", "ledger/sql/levels.sql"),
        ("ledger_tallied", "ledger/sql/tallies.sql"),
        ("ledger_payments_window", "ledger/sql/tallies.sql"),
        ("ledger_payee_window", "ledger/sql/tallies.sql"),
    ):
        with connection.cursor() as cursor:
            cursor.execute("SELECT prosrc FROM pg_proc WHERE proname = %s", [name])
            ((source,),) = cursor.fetchall()
        assert source.strip() in (settings.BASE_DIR / file).read_text()


def test_who_is_far_ahead_is_the_same_in_sql(settings):
    sql = (settings.BASE_DIR / "payments/deciding/sql/facts.sql").read_text()

    assert f"p_clock_at + interval '{LARGEST_SKEW.total_seconds():g} seconds'" in sql


@pytest.mark.django_db
def test_migrating_again_brings_an_old_function_up_to_date():
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE FUNCTION payments_record_batch(p_entries json, p_agents json, p_payments json,"
            " p_settlements json, p_legs json, p_movements json, p_events json) RETURNS void LANGUAGE sql AS 'SELECT'"
        )
    call_command("migrate", verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("SELECT prosrc FROM pg_proc WHERE proname = 'payments_record_batch'")
        assert "INSERT INTO ledger_logentry" in cursor.fetchone()[0]
