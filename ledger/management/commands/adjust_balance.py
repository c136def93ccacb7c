"""`manage.py adjust_balance ID --amount=±X --reason R [--chain C]`."""

from typing import Any

from django.core.management.base import CommandError, CommandParser

from allowance.commands import AUTHOR, JsonCommand
from allowance.kernel.assets import Asset
from allowance.kernel.money import AmountError, parse_signed_amount
from ledger.management.movements import add_chain, add_reason, find_agent, read_chain
from ledger.operations import adjust_balance
from ledger.serializers import present_budget


class Command(JsonCommand):
    help = "Correct an agent's balance, up or down, never below zero. Moves nothing on chain. Prints the budget."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The agent's id.")
        parser.add_argument("--amount", required=True, help="Signed, in the allowance's asset: --amount=-0.50.")
        add_reason(parser, required=True)
        add_chain(parser, help_text="If it is about what one escrow holds.")

    def perform(self, **options: Any) -> dict[str, Any]:
        agent = find_agent(options["id"])
        try:
            amount = parse_signed_amount(options["amount"], Asset(agent.asset))
        except AmountError as error:
            raise CommandError(f"amount: {error}") from error
        chain = read_chain(options["chain"])
        adjust_balance(agent.id, amount=amount, by=AUTHOR, reason=options["reason"], chain=chain)
        return present_budget(agent.id)
