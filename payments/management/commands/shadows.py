"""`manage.py shadows [--agent ID] [--json]`."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from payments.management.trials import MOST_SINCE, Trial, TrialCommand
from policy.models import ShadowRevision
from policy.revisions import limits_of


class Command(TrialCommand):
    help = (
        "Show what the shadows of agents would have decided otherwise: the limits that are tried on each, judged since "
        f"they were begun, on the newest {MOST_SINCE:,} decisions at most. set_policy --shadow begins one, set_policy "
        "--from-shadow puts one in force, change shadow.drop drops one. It changes nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", metavar="ID", help="Show the shadow of this agent only.")
        parser.add_argument("--json", action="store_true", help="Print one JSON object instead of lines.")

    def perform(self, **options: Any) -> dict[str, Any] | None:
        shadows = ShadowRevision.objects.select_related("agent").order_by("agent")
        if options["agent"] is not None:
            shadows = shadows.filter(agent=options["agent"])
            if not shadows:
                raise CommandError(f"{options['agent']} has no shadow.")
        trials = [Trial(one.agent_id, one.agent.asset, limits_of(one), one.created_at) for one in shadows]
        if not trials and not options["json"]:
            self.stdout.write("No agent has a shadow.")
        return self.judge(trials, is_json=options["json"])
