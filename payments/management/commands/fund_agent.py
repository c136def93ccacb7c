"""`manage.py fund_agent ID AMOUNT [--reason R] [--chain C]`."""

from typing import Any

from django.core.management.base import CommandParser

from allowance.commands import AUTHOR, JsonCommand, read_amount
from ledger.serializers import present_budget
from payments.funding.credits import fund_agent
from payments.management.movement_options import add_chain, add_reason, find_agent, look_for_surplus


class Command(JsonCommand):
    help = (
        "Credit an agent's allowance with what an escrow holds and nobody was promised: its surplus, which is looked "
        "at first. Moves nothing on chain. Prints the budget."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The agent's id.")
        parser.add_argument("amount", help="Decimal amount in the allowance's asset.")
        add_reason(parser, required=False)
        add_chain(parser, help_text="Whose surplus; without it, that with the largest one.")

    def perform(self, **options: Any) -> dict[str, Any]:
        agent = find_agent(options["id"])
        amount = read_amount(options["amount"], agent.asset, "amount")
        chain = look_for_surplus(options["chain"], agent.asset)
        fund_agent(agent.id, amount=amount, by=AUTHOR, reason=options["reason"], chain=chain)
        return present_budget(agent.id)
