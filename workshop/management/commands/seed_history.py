"""`manage.py seed_history [--payments N] [--seed N] [--anyway]`."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from foundation.commands import JsonCommand
from foundation.progress_bar import ProgressBar
from policy.models import Agent
from workshop.demo.history.seeding import seed_history


class Command(JsonCommand):
    help = (
        "Fill the database with months of history to look at: agents in various states, payees of all states, policy "
        "revisions, decisions by the money path itself, payments that settled, failed or hang, deposits, withdrawals, "
        "webhooks that fail, approvals that wait (one looks like a known payee), an alarm. `verify_log` passes "
        "afterwards. Another run adds more agents. The payments never were on a chain: do not run it where real money "
        "is paid."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--payments", type=int, default=3_000, metavar="N", help="Decisions to make (default: 3000)."
        )
        parser.add_argument("--seed", type=int, metavar="N", help="Make the same cast and amounts again.")
        parser.add_argument(
            "--anyway", action="store_true", help="Outside the embedded mode, too, where there are agents already."
        )

    def perform(self, **options: Any) -> dict[str, Any]:
        if options["payments"] < 1:
            raise CommandError("--payments is 1 or more.")
        if not (settings.EMBEDDED or options["anyway"]) and Agent.objects.exists():
            raise CommandError("There are agents here: real ones, perhaps. With --anyway the history is added to them.")
        bar = ProgressBar(options["payments"])
        agents = seed_history(options["payments"], bar.draw, seed=options["seed"])
        took_s = bar.end()
        return {
            "agents": len(agents),
            "entries": options["payments"],
            "seconds": round(took_s, 1),
            "perSecond": round(options["payments"] / took_s),
        }
