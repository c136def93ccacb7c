"""`manage.py withdraw_funds ID AMOUNT --reason R [--chain C]`."""

from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from allowance.commands import AUTHOR, JsonCommand, read_amount
from ledger.management.movements import add_chain, add_reason, find_agent, read_chain
from ledger.operations import withdraw_funds
from ledger.serializers import present_budget


class Command(JsonCommand):
    help = (
        "Book that money leaves an agent's allowance. It only books; the tokens are moved by whoever can: on an EVM "
        "chain the escrow's owner, with the contract's `withdraw(token, to, amount)`; on Solana two of the "
        "multisig's three signers, such as the owner and the relayer. Prints the budget."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", help="The agent's id.")
        parser.add_argument("amount", help="Decimal amount in the allowance's asset.")
        add_reason(parser, required=True)
        add_chain(parser, help_text="The chain whose escrow pays it out; may be left out if only one has the asset.")

    def perform(self, **options: Any) -> dict[str, Any]:
        agent = find_agent(options["id"])
        amount = read_amount(options["amount"], agent.asset, "amount")
        chain = read_chain(options["chain"]) or _only_chain_with(agent.asset)
        withdraw_funds(agent.id, amount=amount, by=AUTHOR, reason=options["reason"], chain=chain)
        return present_budget(agent.id)


def _only_chain_with(asset: str) -> str:
    chains = [caip2 for caip2, served in settings.CHAINS.items() if asset in served.tokens]
    if len(chains) != 1:
        raise CommandError(f"{len(chains)} served chains have {asset}: say with --chain which escrow pays it out.")
    return chains[0]
