"""Look at what the role of `DATABASE_URL` may do, and at what the database runs by itself: functions, triggers."""

import re
from collections.abc import Iterator

from django.apps import apps
from django.conf import settings

from ledger.apps import FILES as OF_LEDGER
from operators.doctor.diagnoses import Diagnosis, error, ok, warning
from operators.doctor.looking import ask, ask_one, quoted
from payments.apps import FILES as OF_PAYMENTS
from services.apps import FILES as OF_SERVICES
from staff.apps import FILES as OF_STAFF

_FUNCTION = re.compile(r"CREATE OR REPLACE FUNCTION (\w+)\(.*?AS \$\$(.*?)\$\$", re.DOTALL)
_TRIGGER = re.compile(r"CREATE OR REPLACE TRIGGER (\w+) .*?\bON (\w+)", re.DOTALL)
_MIGRATE = "python manage.py migrate, which installs them each time"
# What a role may do with each of some tables: whether it is theirs to alter, and to read and write.
_RIGHTS = """
    SELECT c.relname, pg_has_role(current_user, c.relowner, 'USAGE'),
           has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
           AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE')
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = current_schema()
     WHERE c.relname = ANY(%s) ORDER BY c.relname
"""
_TRIGGERS = """
    SELECT tgname, relname, tgenabled FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE NOT tgisinternal
"""


def find_missing_rights() -> Iterator[Diagnosis]:
    """See that the role may do what migrations and processes do, and not everything."""
    role, schema = ask_one("SELECT current_user"), ask_one("SELECT current_schema()")
    if schema is None:
        yield error("schema", "The role has no schema to work in.", f"SQL: CREATE SCHEMA AUTHORIZATION {quoted(role)};")
        return
    if not ask_one("SELECT has_schema_privilege(%s, 'CREATE')", schema):
        says = f"{role} may make no tables in {schema}: migrate fails."
        yield error("DDL", says, f"SQL: GRANT USAGE, CREATE ON SCHEMA {quoted(schema)} TO {quoted(role)};")
    else:
        yield ok("DDL", f"{role} may make tables.")
    yield from _tables(role)
    if ask_one("SELECT rolsuper FROM pg_roles WHERE rolname = current_user") and not settings.EMBEDDED:
        says = f"{role} is a superuser: whoever has its password has all databases of this server, and its machine."
        yield warning("superuser", says, f"SQL: ALTER ROLE {quoted(role)} NOSUPERUSER; let it own its database instead")
    else:
        yield ok("superuser", f"{role} is as much as it has to be.")


def _tables(role: str) -> Iterator[Diagnosis]:
    """Look at the tables of all models that are there."""
    names = [model._meta.db_table for model in apps.get_models()]
    rows = ask(_RIGHTS, names)
    foreign = [name for name, is_own, _ in rows if not is_own]
    closed = [name for name, _, is_open in rows if not is_open]
    if foreign:
        says = f"{len(foreign)} tables belong to another role, {foreign[0]} first: a migration cannot change them."
        yield error("ownership", says, f"SQL: ALTER TABLE {quoted(foreign[0])} OWNER TO {quoted(role)}; and so on")
    if closed:
        says = f"{role} may not read and write {len(closed)} tables, {closed[0]} first: what needs them gets 500."
        schema = quoted(ask_one("SELECT current_schema()"))
        rights = f"SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON ALL TABLES IN SCHEMA {schema}"
        yield error("DML", says, f"SQL: GRANT {rights} TO {quoted(role)};")
    if not foreign and not closed:
        yield ok("tables", f"{role} may read, write and change all {len(rows)}.")


def find_changed_functions() -> Iterator[Diagnosis]:
    """Compare the functions and triggers of the database with this release's files."""
    texts = [path.read_text() for path in (*OF_LEDGER, *OF_PAYMENTS, *OF_SERVICES, *OF_STAFF)]
    wanted = {name: body for text in texts for name, body in _FUNCTION.findall(text)}
    there = dict(ask("SELECT proname, prosrc FROM pg_proc WHERE proname = ANY(%s)", list(wanted)))
    troubles = [f"{name} is missing" for name in wanted if name not in there]
    troubles += [f"{name} is another one" for name, body in wanted.items() if name in there and there[name] != body]
    for trouble in troubles:
        yield error(
            trouble.split(" ")[0], f"The function {trouble}: payments fail, or are judged by other rules.", _MIGRATE
        )
    if not troubles:
        yield ok("functions", f"All {len(wanted)} are this release's.")
    yield from _triggers([found for text in texts for found in _TRIGGER.findall(text)])


def _triggers(wanted: list[tuple[str, str]]) -> Iterator[Diagnosis]:
    rows = ask(_TRIGGERS)
    state = {(name, table): enabled for name, table, enabled in rows}
    for name, table in wanted:
        if (name, table) not in state:
            yield error(f"{table}.{name}", "This trigger is missing: rows that must stay can be changed.", _MIGRATE)
        elif state[name, table] not in ("O", "A"):
            cure = f"SQL: ALTER TABLE {quoted(table)} ENABLE TRIGGER {quoted(name)}; then python manage.py verify_log"
            yield error(f"{table}.{name}", "This trigger is switched off: rows that must stay can be changed.", cure)
    if all(state.get(one) in ("O", "A") for one in wanted):
        yield ok("triggers", f"All {len(wanted)} are on.")
