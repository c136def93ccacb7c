"""Database sessions that see something else than they should: a role has functions of ours before PostgreSQL's own.

Everything else in those sessions is the product's, unchanged: only a name that it calls means another function.
"""

from collections.abc import Sequence

from tests.crash.installation import Installation
from tests.support.house import server_environment

CLOCK = "wrong_clock"
# Whoever calls these is told a time that is ahead by what the table says.
_CLOCK = """
    CREATE SCHEMA wrong_clock;
    CREATE TABLE wrong_clock.setting AS SELECT interval '0' AS ahead;
    CREATE FUNCTION wrong_clock.clock_timestamp() RETURNS timestamptz LANGUAGE sql
        AS 'SELECT pg_catalog.clock_timestamp() + ahead FROM wrong_clock.setting';
    CREATE FUNCTION wrong_clock.statement_timestamp() RETURNS timestamptz LANGUAGE sql
        AS 'SELECT pg_catalog.statement_timestamp() + ahead FROM wrong_clock.setting';
    CREATE FUNCTION wrong_clock.now() RETURNS timestamptz LANGUAGE sql
        AS 'SELECT pg_catalog.now() + ahead FROM wrong_clock.setting';
"""
# Leaks, to see that they are noticed. Nobody waits for an agent's lock, and whoever decides is slow to write it down:
# some are side by side on any machine. (A doubled % is one: the statement could have parameters.)
_NO_LOCK = r"""
    CREATE SCHEMA no_lock;
    DO $$ DECLARE made regprocedure; BEGIN
        FOR made IN SELECT oid FROM pg_proc WHERE proname LIKE 'payments_lock_and_read_%%' LOOP
            EXECUTE regexp_replace(replace(
                pg_get_functiondef(made), 'FUNCTION public.', 'FUNCTION no_lock.'),
                'FOR NO KEY UPDATE( SKIP LOCKED)?', '', 'g');
        END LOOP;
        EXECUTE regexp_replace(replace(
            pg_get_functiondef('public.payments_record_batch'::regproc), 'FUNCTION public.', 'FUNCTION no_lock.'),
            '\nBEGIN\n', E'\nBEGIN\n    PERFORM pg_sleep(0.5);\n');
    END $$;
"""
# Every window is empty.
_NO_WINDOWS = """
    CREATE SCHEMA no_windows;
    CREATE FUNCTION no_windows.ledger_spent_window(text, numeric, timestamptz) RETURNS TABLE (spent numeric)
    LANGUAGE sql AS 'SELECT 0::numeric';
"""
# Nobody counts what those below it pay.
_NO_LEVELS = """
    CREATE SCHEMA no_levels;
    CREATE FUNCTION no_levels.ledger_below_since(text, timestamptz) RETURNS numeric[] LANGUAGE sql
        AS 'SELECT ARRAY[0, 0]::numeric[]';
"""
# Windows begin with the calendar's day or week.
_CALENDAR = """
    CREATE SCHEMA calendar;
    CREATE FUNCTION calendar.ledger_spent_window(agent text, total numeric, since timestamptz)
    RETURNS TABLE (spent numeric) LANGUAGE sql AS $$
        SELECT spent FROM public.ledger_spent_window(agent, total, greatest(since, date_trunc(
            CASE WHEN since > wrong_clock.clock_timestamp() - interval '2 days' THEN 'day' ELSE 'week' END,
            wrong_clock.clock_timestamp()) - interval '1 millisecond'))
    $$;
"""
# What is approved is told and not written down.
_NO_RECORDS = """
    CREATE SCHEMA no_records;
    DO $$ DECLARE made regproc = 'public.payments_record_batch'::regproc; BEGIN
        EXECUTE format('CREATE FUNCTION no_records.payments_record_batch(%%s) RETURNS %%s LANGUAGE plpgsql AS %%L',
                       pg_get_function_identity_arguments(made), pg_get_function_result(made), 'BEGIN END');
    END $$;
"""
_SCHEMAS = (_CLOCK, _NO_LOCK, _NO_WINDOWS, _NO_LEVELS, _CALENDAR, _NO_RECORDS)


def make_wrong(installation: Installation) -> None:
    """Make all that a wrong session may see. Nobody sees it who does not log in as somebody made for that."""
    for statements in _SCHEMAS:
        installation.execute(statements)


def wrong_url(installation: Installation, schemas: Sequence[str]) -> str:
    """Return the DATABASE_URL of sessions that see these schemas first."""
    role = "_".join(("who_sees", *schemas))
    if not installation.execute("SELECT FROM pg_roles WHERE rolname = %s", role):
        path = ", ".join((*schemas, "public", "pg_catalog"))
        installation.execute(f"CREATE ROLE {role} LOGIN SUPERUSER; ALTER ROLE {role} SET search_path = {path}")
    url = server_environment()["DATABASE_URL"]
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{role}@{rest.partition('@')[2]}"
