"""`manage.py adjust_balance ID --amount=±X --reason R [--chain C]`."""

from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand
from ledger.serializers import present_budget
from payments.management.movement_options import add_chain, add_reason, find_agent, find_chain_to_credit
from payments.proposals import ADJUST
from staff.kinds import make


class Command(JsonCommand):
    help = (
        "Correct an agent's balance, up or down, never below zero. A credit is taken from the surplus: what an escrow "
        "holds and nobody was promised, which is read first. A deduction adds to it. Moves nothing on chain. Prints "
        "the budget."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The agent's id.")
        parser.add_argument("--amount", required=True, help="Signed, in the allowance's asset: --amount=-0.50.")
        add_reason(parser, required=True)
        add_chain(parser, help_text="The chain of the escrow; by default, the one with the largest surplus.")

    def perform(self, **options: Any) -> dict[str, Any]:
        agent = find_agent(options["id"])
        chain = find_chain_to_credit(options["chain"], agent.asset)
        arguments = {"agent": agent.id, "amount": options["amount"], "chain": chain}
        make(ADJUST, arguments, by=AUTHOR, reason=options["reason"])
        return present_budget(agent.id)
