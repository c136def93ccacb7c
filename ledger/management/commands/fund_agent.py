"""`manage.py fund_agent ID AMOUNT [--reason R] [--chain C]`."""

from typing import Any

from django.core.management.base import CommandParser

from allowance.commands import AUTHOR, JsonCommand, read_amount
from ledger.management.movements import add_chain, add_reason, find_agent, read_chain
from ledger.operations import fund_agent
from ledger.serializers import present_budget


class Command(JsonCommand):
    help = "Credit an agent's allowance. Moves nothing on chain: the escrow must hold the money. Prints the budget."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The agent's id.")
        parser.add_argument("amount", help="Decimal amount in the allowance's asset.")
        add_reason(parser, required=False)
        add_chain(parser, help_text="Where the money came in.")

    def perform(self, **options: Any) -> dict[str, Any]:
        agent = find_agent(options["id"])
        amount = read_amount(options["amount"], agent.asset, "amount")
        chain = read_chain(options["chain"])
        fund_agent(agent.id, amount=amount, by=AUTHOR, reason=options["reason"], chain=chain)
        return present_budget(agent.id)
