"""`manage.py set_policy ID [--max-per-payment X] … [--service S … | --all-services] [--hourly-limit X] …`.

With `--shadow` these limits are only tried; with `--from-shadow` those that were tried are put in force.
"""

from collections.abc import Mapping
from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation.commands import AUTHOR, JsonCommand, add_reason, read_amount
from foundation.kernel.assets import Asset
from foundation.kernel.times import format_instant
from ledger.serializers import present_budget
from policy.limit_texts import write_without_parent
from policy.management.limit_options import add_limit_options, named_limits, read_named_limits
from policy.models import Agent
from policy.proposals import KIND
from policy.revisions import limits_of
from policy.shadow_proposals import BEGIN
from policy.shadows import find_shadow
from staff.kinds import make

_LIMITS = ("max_per_payment", "daily_limit", "weekly_limit")


class Command(JsonCommand):
    help = (
        "Make an agent's next policy revision; what is not named stays as it is. Prints its budget. With --shadow, the "
        "limits are tried instead: they decide nothing, and `shadows` shows what they would have decided otherwise."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The agent's id.")
        parser.add_argument("--max-per-payment", metavar="AMOUNT", help="Limit of a single payment.")
        parser.add_argument("--daily-limit", metavar="AMOUNT", help="Limit of any 24 hours.")
        parser.add_argument("--weekly-limit", metavar="AMOUNT", help="Limit of any 7 days.")
        services = parser.add_mutually_exclusive_group()
        services.add_argument("--service", nargs="+", action="extend", metavar="ID", help="Allow only these services.")
        services.add_argument("--all-services", action="store_true", help="Allow every approved service.")
        add_limit_options(parser, "A policy need not have these: `none` removes one.")
        shadows = parser.add_mutually_exclusive_group()
        shadows.add_argument("--shadow", action="store_true", help="Try these limits, beside those in force.")
        shadows.add_argument("--from-shadow", action="store_true", help="Put the limits that are tried in force.")
        add_reason(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        agent = Agent.objects.filter(pk=options["id"]).first()
        if agent is None:
            raise CommandError(f"There is no agent {options['id']}.")
        changes = _changes(agent, options)
        why = {"by": AUTHOR, "reason": options["reason"]}
        if options["shadow"]:
            make(BEGIN, {"agent": agent.id, **changes}, **why)
            return {"agentId": agent.id, "shadowSince": format_instant(agent.shadow.created_at)}
        make(KIND, {"agent": agent.id, **changes}, **why)
        return present_budget(agent.id)


def _changes(agent: Agent, options: Mapping[str, Any]) -> dict[str, Any]:
    """Read the limits that are named, or those of the shadow."""
    changes = {name: options[name] for name in _LIMITS if options[name] is not None}
    for name, text in changes.items():
        read_amount(text, agent.asset, f"--{name.replace('_', '-')}")
    read_named_limits(options, Asset(agent.asset))  # what is wrong is named as an option
    changes |= named_limits(options)
    if options["service"] or options["all_services"]:
        changes["allowed_services"] = options["service"]
    if not options["from_shadow"]:
        if not changes:
            raise CommandError("Name at least one limit, --service or --all-services.")
        return changes
    shadow = find_shadow(agent.id)
    if changes or shadow is None:
        raise CommandError("With --from-shadow, name no limit." if changes else f"{agent.id} has no shadow.")
    return write_without_parent(limits_of(shadow))
