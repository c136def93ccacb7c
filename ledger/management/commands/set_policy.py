"""`manage.py set_policy ID [--max-per-payment X] … [--service S … | --all-services] [--hourly-limit X] …`."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from foundation.commands import AUTHOR, JsonCommand, add_reason, read_amount
from foundation.kernel.assets import Asset
from ledger.serializers import present_budget
from policy.management.limit_options import add_limit_options, named_limits, read_named_limits
from policy.models import Agent
from policy.proposals import KIND
from staff.kinds import make

_LIMITS = ("max_per_payment", "daily_limit", "weekly_limit")


class Command(JsonCommand):
    help = "Make an agent's next policy revision; what is not named stays as it is. Prints its budget."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The agent's id.")
        parser.add_argument("--max-per-payment", metavar="AMOUNT", help="Limit of a single payment.")
        parser.add_argument("--daily-limit", metavar="AMOUNT", help="Limit of any 24 hours.")
        parser.add_argument("--weekly-limit", metavar="AMOUNT", help="Limit of any 7 days.")
        services = parser.add_mutually_exclusive_group()
        services.add_argument("--service", nargs="+", action="extend", metavar="ID", help="Allow only these services.")
        services.add_argument("--all-services", action="store_true", help="Allow every approved service.")
        add_limit_options(parser, "A policy need not have these: `none` removes one.")
        add_reason(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        agent = Agent.objects.filter(pk=options["id"]).first()
        if agent is None:
            raise CommandError(f"There is no agent {options['id']}.")
        changes = {name: options[name] for name in _LIMITS if options[name] is not None}
        for name, text in changes.items():
            read_amount(text, agent.asset, f"--{name.replace('_', '-')}")
        read_named_limits(options, Asset(agent.asset))  # what is wrong is named as an option
        changes |= named_limits(options)
        if options["service"] or options["all_services"]:
            changes["allowed_services"] = options["service"]
        if not changes:
            raise CommandError("Name at least one limit, --service or --all-services.")
        make(KIND, {"agent": agent.id, **changes}, by=AUTHOR, reason=options["reason"])
        return present_budget(agent.id)
