"""`manage.py restore_point`."""

from typing import Any

from django.core.management.base import CommandError
from django.db import ProgrammingError
from psycopg.errors import InsufficientPrivilege

from foundation import groups
from foundation.commands import JsonCommand
from operators.distributing.restore_points import create_restore_point


class Command(JsonCommand):
    help = (
        "Name one moment in the WAL of all servers of a Citus cluster, so that the backups of all of them can be "
        "restored up to it (recovery_target_name), and print the name. Run it each hour, say, and keep what it prints; "
        "payments go on. On one server no name is needed: it can be restored up to any moment. "
        "docs/operate/growing.md says how."
    )

    def perform(self, **_options: Any) -> dict[str, Any]:
        if groups.every_group() == (groups.WHOLE,):
            raise CommandError("This database is on one server: restore it up to any time (recovery_target_time).")
        try:
            name, servers = create_restore_point()
        except ProgrammingError as error:
            if isinstance(error.__cause__, InsufficientPrivilege):
                raise CommandError(f"Only a superuser of the servers may name a moment: {error}") from error
            raise
        return {"restorePoint": name, "servers": servers}
