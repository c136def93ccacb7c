"""`manage.py deposit AGENT AMOUNT [--chain C] [--asset A] [--no-wait]`."""

import time
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser

from chains.port import ChainAdapter, ChainUnavailable, MadeDeposit
from foundation.commands import JsonCommand, read_amount
from foundation.kernel.assets import Asset
from foundation.kernel.money import format_amount
from owner.wallets import open_wallet
from payments.models import Deposit
from policy.models import Agent
from services.served_chains import read_chain, served_chains

_USUAL_CHAIN = "evm-localnet"
_POLL_S = 0.5
# The slowest test network takes a quarter of an hour until a block is final.
_FINAL_AFTER_S = 1800
# If a final deposit is not credited by then, no worker is running.
_CREDITED_AFTER_S = 180


class Command(JsonCommand):
    help = (
        "Deposit into the escrow of a test network with the account of DEPOSIT_KEY, as a customer would; test tokens "
        "are minted if it has too few and may mint them. Waits until the deposit is final and a worker has credited "
        "it. Prints the transaction and its state: included, final, credited, or aside (set aside for the console, "
        "because it names no agent of this asset)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("agent", help="The agent's id, as the event (EVM) or the memo (Solana) names it.")
        parser.add_argument("amount", help="Decimal amount in the asset.")
        parser.add_argument(
            "--chain", help="An alias or a CAIP-2 id (default: evm-localnet, or the only test network with the asset)."
        )
        parser.add_argument("--asset", choices=list(Asset), help="Default: that of the agent's allowance.")
        parser.add_argument("--no-wait", action="store_true", help="Return once it is in a block.")

    def perform(self, **options: Any) -> dict[str, Any]:
        asset = _asset(options["agent"], options["asset"])
        chain = read_chain(options["chain"] or _usual_chain(asset))
        adapter = served_chains()[chain]
        amount = read_amount(options["amount"], asset, "amount")
        try:
            made = open_wallet(chain, self.stderr.write).deposit(options["agent"], asset=asset, amount=amount)
        except ChainUnavailable as error:
            raise CommandError(str(error)) from error
        state = "included" if options["no_wait"] else self._wait(adapter, chain, made)
        return {
            "agent": options["agent"],
            "amount": format_amount(amount),
            "asset": asset,
            "chain": chain,
            "tx": made.tx,
            "state": state,
        }

    def _wait(self, adapter: ChainAdapter, chain: str, made: MadeDeposit) -> str:
        """Wait until a deposit is credited, or is not going to be; returns how far it came."""
        self.stderr.write(f"In block {made.block_number}; waiting until that is final ...")
        end = time.monotonic() + _FINAL_AFTER_S
        is_final = False
        while time.monotonic() < end:
            found = Deposit.objects.filter(chain=chain, tx=made.tx).first()
            if found is not None:
                return found.state
            if not is_final and _is_final(adapter, made):
                self.stderr.write("Final; waiting until a worker credits it ...")
                is_final, end = True, time.monotonic() + _CREDITED_AFTER_S
            time.sleep(_POLL_S)
        self.stderr.write("It is not credited: is a worker running?" if is_final else "It is still not final.")
        return "final" if is_final else "included"


def _asset(agent_id: str, asked: str | None) -> Asset:
    if asked is not None:
        return Asset(asked)
    agent = Agent.objects.filter(pk=agent_id).first()
    if agent is None:
        raise CommandError(f"There is no agent {agent_id}: name the asset with --asset.")
    return Asset(agent.asset)


def _usual_chain(asset: Asset) -> str:
    """Name the default chain for an asset."""
    able = [one.chain.alias for one in settings.CHAINS.values() if one.chain.is_test and asset in one.tokens]
    if _USUAL_CHAIN in able:
        return _USUAL_CHAIN
    if len(able) != 1:
        raise CommandError(f"Name the chain with --chain. Test networks with {asset}: {', '.join(able) or 'none'}.")
    return str(able[0])


def _is_final(adapter: ChainAdapter, made: MadeDeposit) -> bool:
    try:
        return adapter.follower.find_finality().block_number >= made.block_number
    except ChainUnavailable:
        return False
