"""`manage.py withdraw_funds ID AMOUNT --to ADDRESS --reason R [--chain C]`, `--show REF`, `--cancel REF`."""

import json
import time
from typing import Any

from django.core.management.base import CommandError, CommandParser

from chains.port import ChainUnavailable
from foundation.commands import AUTHOR, JsonCommand, read_amount
from foundation.kernel.money import format_amount
from payments.funding.expected_holdings import chains_with
from payments.funding.owner_transactions import StillValid, transaction_expires, transfer_to_sign
from payments.funding.withdrawals import book_withdrawal, find_withdrawal
from payments.management.movement_options import find_agent
from payments.models import Withdrawal
from services.served_chains import read_chain
from staff.kinds import make

_POLL_S = 0.5
_LOOK_AGAIN_S = 5
# Owners may be several people. After this, --show goes on.
_LONGEST_WAIT_S = 3600


class Command(JsonCommand):
    help = (
        "Take money out of an agent's allowance and of the escrow. It is booked first, then the escrow's owner signs "
        "and sends what is printed: on an EVM chain a call of the escrow, also as a batch file for a Safe; on Solana a "
        "transaction that the relayer has signed, in base64, and another one whenever it has expired. Waits until a "
        "worker has found the tokens gone in a final block. --show prints it again and waits; --cancel returns it to "
        "the balance: first make sure that nobody sends it any more. Prints the withdrawal: open, landed or cancelled."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("id", nargs="?", help="The agent's id.")
        parser.add_argument("amount", nargs="?", help="Decimal amount in the allowance's asset.")
        parser.add_argument("--to", metavar="ADDRESS", help="Who gets the tokens, on the chain.")
        parser.add_argument("--reason", default="", help="Why. Kept with the movement.")
        parser.add_argument(
            "--chain",
            metavar="CHAIN",
            help="The escrow's chain, an alias or a CAIP-2 id; by default, the only one.",
        )
        parser.add_argument("--no-wait", action="store_true", help="Return at once.")
        former = parser.add_mutually_exclusive_group()
        former.add_argument("--show", metavar="REF", help="Print what is to be signed for a withdrawal again.")
        former.add_argument("--cancel", metavar="REF", help="Return a withdrawal to the balance, with a --reason.")

    def perform(self, **options: Any) -> dict[str, Any]:
        if options["cancel"] is not None:
            make("withdrawal.cancel", {"withdrawal": options["cancel"]}, by=AUTHOR, reason=options["reason"])
            return _present(find_withdrawal(options["cancel"]))
        withdrawal = find_withdrawal(options["show"]) if options["show"] is not None else _book(options)
        shown: dict[str, Any] = {}
        if withdrawal.state == "open":
            self.stderr.write(f"{withdrawal} is booked. The owner of {withdrawal.escrow} has to sign and send this:")
            shown = self._show(withdrawal)
            if not options["no_wait"]:
                shown = self._wait(withdrawal) or shown
        return {**_present(withdrawal), "toSign": shown}

    def _show(self, withdrawal: Withdrawal, *, is_renewal: bool = False) -> dict[str, Any]:
        """Print what the owner signs, if it can be made now."""
        try:
            made = transfer_to_sign(withdrawal)
        except (ChainUnavailable, StillValid) as error:
            if not is_renewal:
                self.stderr.write(str(error))
            return {}
        for name, value in made.items():
            self.stdout.write(f"{name}: {value if isinstance(value, str) else json.dumps(value)}")
        return made

    def _wait(self, withdrawal: Withdrawal) -> dict[str, Any]:
        """Wait until the tokens have left in a final block, or it is cancelled; returns what was printed meanwhile.

        A transaction that expires is made again once it is certain that it was not included.
        """
        self.stderr.write("Waiting until the tokens have left in a final block (Ctrl-C ends only the waiting) ...")
        shown: dict[str, Any] = {}
        end, next_look = time.monotonic() + _LONGEST_WAIT_S, time.monotonic() + _LOOK_AGAIN_S
        while withdrawal.state == "open" and time.monotonic() < end:
            time.sleep(_POLL_S)
            withdrawal.refresh_from_db()
            if withdrawal.state == "open" and time.monotonic() > next_look and transaction_expires(withdrawal):
                shown = self._show(withdrawal, is_renewal=True) or shown
                next_look = time.monotonic() + _LOOK_AGAIN_S
        if withdrawal.state == "open":
            self.stderr.write(f"They have not left yet: --show {withdrawal} goes on waiting.")
        return shown


def _book(options: dict[str, Any]) -> Withdrawal:
    if options["id"] is None or options["amount"] is None or options["to"] is None:
        raise CommandError("Give the agent, the amount and --to; or --show or --cancel a withdrawal.")
    agent = find_agent(options["id"])
    amount = read_amount(options["amount"], agent.asset, "amount")
    chain = _only_chain_with(agent.asset) if options["chain"] is None else read_chain(options["chain"])
    return book_withdrawal(
        agent.id, amount=amount, chain=chain, recipient=options["to"], by=AUTHOR, reason=options["reason"]
    )


def _only_chain_with(asset: str) -> str:
    chains = chains_with(asset)
    if len(chains) != 1:
        raise CommandError(f"{len(chains)} served chains have {asset}: name the one that pays it out with --chain.")
    return chains[0]


def _present(withdrawal: Withdrawal) -> dict[str, Any]:
    return {
        "reference": withdrawal.reference,
        "state": withdrawal.state,
        "agent": withdrawal.agent_id,
        "amount": format_amount(withdrawal.amount),
        "asset": withdrawal.asset,
        "chain": withdrawal.chain,
        "escrow": withdrawal.escrow,
        "recipient": withdrawal.recipient,
        "tx": withdrawal.landed_tx or None,
    }
