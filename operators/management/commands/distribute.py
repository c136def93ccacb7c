"""`manage.py distribute [--groups N]`."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation import groups
from foundation.commands import AUTHOR, JsonCommand
from foundation.database import fetch_rows
from operators.distributing.moving import rebalance
from operators.distributing.opening import open_groups
from operators.distributing.spreading import MOST_GROUPS, spread
from staff.audit import record

_HAS_CITUS = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
_GROUPS = 6


class Command(JsonCommand):
    help = (
        "Spread the database over the servers of its Citus cluster, by groups of agents. Run it on the coordinator, "
        "with all processes stopped; again after each migrate, and after groups were moved: then it only makes each "
        "node ready for the groups that it has. docs/operate/growing.md says what that is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--groups", type=int, default=_GROUPS, metavar="N",
            help="How many groups to make: no more servers than that can ever be used, and each batch of payments is "
            f"of one of them. It cannot be changed afterwards (default: {_GROUPS}).",
        )  # fmt: skip

        parser.add_argument(
            "--rebalance", action="store_true",
            help="Then move groups, while agents pay, until each server has as many as any other: after one was added. "
            "Interrupted, it goes on when it is run again.",
        )  # fmt: skip

    def perform(self, **options: Any) -> dict[str, Any]:
        if not 1 <= options["groups"] <= MOST_GROUPS:
            raise CommandError(f"--groups is from 1 to {MOST_GROUPS}.")
        if not fetch_rows(_HAS_CITUS, {})[0][0]:
            raise CommandError("This database has no Citus: CREATE EXTENSION citus, and add its nodes.")
        is_new = groups.every_group() == (groups.WHOLE,)
        if is_new:
            spread(options["groups"], self.stderr.write)
            after = {"groups": options["groups"]}
            record("database.distributed", subject_type="database", subject="database", by=AUTHOR, after=after)
            groups.forget()
        result = {"isNew": is_new, "groups": open_groups(self.stderr.write)}
        return result | {"moved": rebalance(self.stderr.write)} if options["rebalance"] else result
