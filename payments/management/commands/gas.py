"""`manage.py gas [--agent A]`."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandParser

from foundation.commands import JsonCommand
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import format_amount
from foundation.kernel.times import utc_now
from payments.settling.agent_gas import GasUse, find_gas_use
from policy.models import Agent


class Command(JsonCommand):
    help = (
        "Show what the transactions of every agent, or of one, have cost in gas money: by chain, in its own coin, in "
        "the last 24 hours (to the hour; open transactions at the most that they can cost) and in all, beside the "
        "budget (GAS_BUDGET_PER_AGENT). Counts the transactions that have ended since costs are recorded."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--agent", metavar="AGENT", help="Only this agent.")

    def perform(self, **options: Any) -> dict[str, Any]:
        agent_id = options["agent"]
        if agent_id is not None and not Agent.objects.filter(pk=agent_id).exists():
            raise OperationRefused(f"There is no agent {agent_id}.")
        used = find_gas_use(utc_now(), agent_id)
        for use in used:
            self.stdout.write(f"{use.agent_id}  {use}")
        budget = settings.GAS_BUDGET_PER_AGENT
        return {"budget": None if budget is None else format_amount(budget), "gas": [_present(use) for use in used]}


def _present(use: GasUse) -> dict[str, Any]:
    return {
        "agentId": use.agent_id,
        "chain": use.chain,
        "today": format_amount(use.today),
        "ever": format_amount(use.ever),
        "isBudgetUsedUp": use.is_budget_used_up,
    }
