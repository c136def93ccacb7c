"""`manage.py fund_relayers CHAIN [--payments N] [--from-key HEX]`."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from chains.port import ChainUnavailable
from foundation.commands import AUTHOR, JsonCommand, add_reason
from foundation.kernel.money import format_amount
from owner.wallets import open_wallet, read_key
from payments.settling.relayer_queue import QUEUES_OF_A_FUNDED_RELAYER, well_funded_payments
from payments.settling.relayers import find_rotation
from services.served_chains import read_chain, served_chains
from staff.audit import record

# Nodes keep this many waiting transactions of one account.
_AT_ONCE = 16


class Command(JsonCommand):
    help = (
        "Give the relayers of a test network gas money, from the account whose key is DEPOSIT_KEY: each relayer that "
        "is not disabled gets what it lacks to pay for a number of payments at today's price. Where there is real "
        "money, relayers are funded from a wallet that nothing here has the key of."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("chain", help="A test network: an alias such as base-sepolia, or CAIP-2.")
        parser.add_argument(
            "--payments",
            type=int,
            metavar="N",
            help="For how many payments each relayer is to have gas money (default: twice as many as the doctor warns "
            f"below, which is {QUEUES_OF_A_FUNDED_RELAYER} times MAX_IN_FLIGHT_PER_RELAYER).",
        )
        parser.add_argument(
            "--from-key",
            type=read_key,
            metavar="HEX",
            help="The key of another account than that of DEPOSIT_KEY. Every user of this machine can read the "
            "arguments of a command while it runs: best set DEPOSIT_KEY instead.",
        )
        add_reason(parser)

    def perform(self, **options: Any) -> dict[str, Any]:
        chain = read_chain(options["chain"])
        wallet = open_wallet(chain, self.stderr.write, options["from_key"])
        payments = 2 * well_funded_payments() if options["payments"] is None else options["payments"]
        if payments < 1:
            raise CommandError("--payments is 1 or more.")
        funded: dict[str, str] = {}
        try:
            missing = _find_missing(chain, payments)
            for amounts in _split(missing):
                txs = wallet.give(amounts)
                _record(chain, amounts, txs, options["reason"])
                funded |= txs
        except ChainUnavailable as error:
            raise CommandError(str(error)) from error
        for address, amount in missing.items():
            self.stdout.write(f"{address}  {format_amount(amount)} {settings.CHAINS[chain].chain.coin}")
        return {
            "chain": chain,
            "payments": payments,
            "relayers": [
                {"address": address, "amount": format_amount(missing[address]), "tx": tx}
                for address, tx in funded.items()
            ],
        }


def _find_missing(chain: str, payments: int) -> dict[str, Decimal]:
    adapter = served_chains()[chain]
    states = adapter.observer.observe_relayers(find_rotation(chain, adapter))
    missing = {address: state.missing_for(payments) for address, state in states.items()}
    return {address: amount for address, amount in missing.items() if amount}


def _split(amounts: Mapping[str, Decimal]) -> list[dict[str, Decimal]]:
    pairs = list(amounts.items())
    return [dict(pairs[first : first + _AT_ONCE]) for first in range(0, len(pairs), _AT_ONCE)]


def _record(chain: str, amounts: Mapping[str, Decimal], txs: Mapping[str, str], reason: str) -> None:
    for address, tx in txs.items():
        after = {"amount": amounts[address], "tx": tx}
        subject = f"{chain}:{address}"
        record("relayer.funded", subject_type="relayer", subject=subject, by=AUTHOR, reason=reason, after=after)
