"""Look at the database: whether it answers, as whom, what it holds, and what it promises about commits."""

from collections.abc import Iterator

from django.apps import apps
from django.db import Error, connection
from django.db.migrations.loader import MigrationLoader

from operators.doctor.diagnoses import Diagnosis, error, ok, skipped, warning
from operators.doctor.looking import ask, ask_one, quoted

_SETTINGS_OF_ROLE = """
    SELECT d.datname, r.rolname FROM pg_db_role_setting s
      LEFT JOIN pg_database d ON d.oid = s.setdatabase LEFT JOIN pg_roles r ON r.oid = s.setrole,
      unnest(s.setconfig) AS one
     WHERE one LIKE %s || '=%%' AND (d.datname IS NULL OR d.datname = current_database())
       AND (r.rolname IS NULL OR r.rolname = session_user)
"""


def find_unreachable_database() -> Iterator[Diagnosis]:
    """Connect to the database."""
    if not connection.settings_dict.get("NAME"):
        yield skipped("connection", "There is no DATABASE_URL that can be read.")
        return
    try:
        version = ask_one("SHOW server_version")
    except Error as trouble:
        yield error("connection", f"The database does not answer: {_reason(trouble)}", _mend(str(trouble)))
        return
    yield ok("connection", f"PostgreSQL {version} answers.")


def _reason(trouble: Error) -> str:
    """Take what the server or libpq says, without the address before it."""
    text = str(trouble).strip() or type(trouble).__name__
    return text.rpartition("failed: ")[2].splitlines()[0]


def _mend(text: str) -> str:
    role, name = connection.settings_dict.get("USER", ""), connection.settings_dict["NAME"]
    cures = {
        "authentication": f"Correct the user or password in DATABASE_URL; SQL: ALTER ROLE {quoted(role)} PASSWORD '…';",
        "role ": f"SQL: CREATE ROLE {quoted(role)} LOGIN PASSWORD '…';",
        "does not exist": f"SQL: CREATE DATABASE {quoted(name)} OWNER {quoted(role)} ENCODING 'UTF8';",
        "or later is required": "Move to PostgreSQL 14 or later",
        "too many connections": "Raise max_connections or put a pooler in front: docs/operate/growing.md",
        "remaining connection slots": "Raise max_connections or put a pooler in front: docs/operate/growing.md",
        "certificate": "Give the server a certificate of its name, or its authority as sslrootcert in DATABASE_URL",
    }
    else_ = "Start PostgreSQL, or correct the host and port in DATABASE_URL; a firewall between may drop what is sent."
    return next((cure for word, cure in cures.items() if word in text), else_)


def find_standby() -> Iterator[Diagnosis]:
    """See that the server takes writes."""
    if ask_one("SELECT pg_is_in_recovery()"):
        yield error(
            "primary",
            "It is a standby: nothing can be written.",
            "Name the primary in DATABASE_URL, behind it ?target_session_attrs=read-write",
        )
    elif ask_one("SELECT reset_val FROM pg_settings WHERE name = 'default_transaction_read_only'") == "on":
        yield error(
            "primary", "Sessions begin read-only: nothing can be written.", _reset("default_transaction_read_only")
        )
    else:
        yield ok("primary", "It takes writes.")


def find_wrong_encoding() -> Iterator[Diagnosis]:
    """See that texts of any language can be kept."""
    encoding, name = ask_one("SHOW server_encoding"), connection.settings_dict["NAME"]
    if encoding == "UTF8":
        yield ok("encoding", "UTF8.")
        return
    sql = f"CREATE DATABASE {quoted(name + '_utf8')} ENCODING 'UTF8' TEMPLATE template0;"
    mend = f"SQL: {sql} then pg_dump this one and restore it there"
    yield error("encoding", f"The database is in {encoding}: reasons and names in other letters are refused.", mend)


def find_unapplied_migrations() -> Iterator[Diagnosis]:
    """Compare the migrations of the database with those of this release."""
    loader = MigrationLoader(connection)
    labels = {config.label for config in apps.get_app_configs()}
    missing = [name for name in loader.graph.leaf_nodes() if name not in loader.applied_migrations]
    replaced = {one for migration in loader.disk_migrations.values() for one in migration.replaces}
    newer = [one for one in loader.applied_migrations if one not in loader.disk_migrations and one not in replaced]
    newer = [name for name in newer if name[0] in labels]
    if missing:
        names = ", ".join(f"{app}.{name}" for app, name in missing)
        says = (
            f"{len(missing)} apps lack migrations, the last of which are {names}: what this release needs is not there."
        )
        yield error("migrations", says, "python manage.py migrate")
    elif newer:
        names = ", ".join(f"{app}.{name}" for app, name in sorted(newer))
        says = f"The database is of a newer release, by {names}."
        yield warning(
            "migrations", says, "Run the newer release; how to go back to this one: docs/operate/upgrading.md"
        )
    else:
        yield ok("migrations", "All are applied, and no others.")


def find_unsafe_commits() -> Iterator[Diagnosis]:
    """See that what is committed is on disk."""
    rows = dict(ask("SELECT name, reset_val FROM pg_settings WHERE name = ANY(%s)", list(_DURABLE)))
    for name, (bad, says) in _DURABLE.items():
        if rows[name] == bad:
            cure = (
                _reset(name)
                if name == "synchronous_commit"
                else f"SQL: ALTER SYSTEM SET {name} = on; SELECT pg_reload_conf();"
            )
            yield error(name, says, cure)
        else:
            yield ok(name, f"It is {rows[name]}.")


_DURABLE = {
    "fsync": ("off", "PostgreSQL does not wait for the disk: a power cut loses payments that were answered."),
    "full_page_writes": ("off", "A crash can leave pages half written."),
    "synchronous_commit": ("off", "A commit does not wait for the disk: a crash loses payments that were answered."),
}


def find_deadly_timeouts() -> Iterator[Diagnosis]:
    """Find limits of time that end a commit's wait for its standby, after which an answer may be lost."""
    names = ["statement_timeout", "transaction_timeout"]
    rows = ask("SELECT name, reset_val FROM pg_settings WHERE name = ANY(%s) ORDER BY name", names)
    for name, value in rows:
        if value == "0":
            yield ok(name, "Not set.")
            continue
        says = f"It is {value} ms: it ends a commit that waits for its standby, and migrations that take long."
        yield warning(name, says, _reset(name))


def _reset(name: str) -> str:
    """Write the statement that takes a setting back where it was made."""
    places = ask(_SETTINGS_OF_ROLE, name)
    for database, role in places:
        where = f" IN DATABASE {quoted(database)}" if database and role else ""
        what = f"ROLE {quoted(role)}{where}" if role else f"DATABASE {quoted(database)}"
        return f"SQL: ALTER {what} RESET {name};"
    return f"SQL: ALTER SYSTEM RESET {name}; SELECT pg_reload_conf(); or take it out of DATABASE_URL"
