"""`manage.py shadows [--agent ID] [--json]`."""

from collections.abc import Iterable
from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation.kernel.errors import OperationRefused
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
        trials, unread = _read(shadows)
        if unread and options["agent"] is not None:
            raise CommandError(unread[options["agent"]])
        if not options["json"]:
            for agent_id, why in unread.items():
                self.stdout.write(f"{agent_id}: not judged. {why}")
            if not shadows:
                self.stdout.write("No agent has a shadow.")
        judged = self.judge(trials, is_json=options["json"])
        return judged and {**judged, "notJudged": [{"agentId": one, "why": why} for one, why in unread.items()]}


def _read(shadows: Iterable[ShadowRevision]) -> tuple[list[Trial], dict[str, str]]:
    """Read what is tried, and say by the agents' ids what only a later release can read."""
    trials, unread = list[Trial](), dict[str, str]()
    for one in shadows:
        try:
            trials.append(Trial(one.agent_id, one.agent.asset, limits_of(one), one.created_at))
        except OperationRefused as refusal:
            unread[one.agent_id] = str(refusal)
    return trials, unread
