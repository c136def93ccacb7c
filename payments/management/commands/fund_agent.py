"""`manage.py fund_agent ID AMOUNT [--reason R] [--chain C]`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand, read_amount
from ledger.serializers import present_budget
from payments.funding.credits import fund_agent
from payments.management.movement_options import add_chain, add_reason, find_agent, find_chain_to_credit


class Command(JsonCommand):
    help = (
        "Credit an agent's allowance from the surplus: what an escrow holds and nobody was promised, which is read "
        "first. Moves nothing on chain. Prints the budget."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The agent's id.")
        parser.add_argument("amount", help="Decimal amount in the allowance's asset.")
        add_reason(parser, required=False)
        add_chain(parser, help_text="The chain of the surplus; by default, the one with the largest.")

    def perform(self, **options: Any) -> dict[str, Any]:
        agent = find_agent(options["id"])
        amount = read_amount(options["amount"], agent.asset, "amount")
        chain = find_chain_to_credit(options["chain"], agent.asset)
        fund_agent(agent.id, amount=amount, by=AUTHOR, reason=options["reason"], chain=chain)
        return present_budget(agent.id)
