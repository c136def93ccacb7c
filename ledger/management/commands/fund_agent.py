"""`manage.py fund_agent ID AMOUNT`."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from allowance.commands import AUTHOR, JsonCommand, read_amount
from ledger.operations import fund_agent
from ledger.serializers import present_budget
from policy.models import Agent


class Command(JsonCommand):
    help = "Credit an agent's allowance. Moves nothing on chain: the escrow must hold the money. Prints the budget."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The agent's id.")
        parser.add_argument("amount", help="Decimal amount in the allowance's asset.")
        parser.add_argument("--reason", default="", help="Kept with the movement.")

    def perform(self, **options: Any) -> dict[str, Any]:
        agent = Agent.objects.filter(pk=options["id"]).first()
        if agent is None:
            raise CommandError(f"There is no agent {options['id']}.")
        amount = read_amount(options["amount"], agent.asset, "amount")
        fund_agent(agent.id, amount=amount, by=AUTHOR, reason=options["reason"])
        return present_budget(agent.id)
