"""`manage.py restore_point NAME`."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation import groups
from foundation.commands import JsonCommand
from operators.distributing.restore_points import create_restore_point

_LONGEST = 63


class Command(JsonCommand):
    help = (
        "Name one moment in the WAL of all servers of a Citus cluster, so that the backups of all of them can be "
        "restored up to it (recovery_target_name). Run it each hour, say; payments go on. On one server no name is "
        "needed: it can be restored up to any moment. docs/operate/growing.md says how."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="A name that was never used before, such as the time: 2026-11-29T03")

    def perform(self, **options: Any) -> dict[str, Any]:
        name = options["name"]
        if not 0 < len(name.encode()) <= _LONGEST:
            raise CommandError(f"A name has 1 to {_LONGEST} bytes.")
        if groups.every_group() == (groups.WHOLE,):
            raise CommandError("This database is on one server: restore it up to any time (recovery_target_time).")
        return {"restorePoint": name, "servers": create_restore_point(name)}
