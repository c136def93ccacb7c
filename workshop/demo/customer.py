"""Deposit into an escrow, on any chain, with a customer's own wallet."""

from dataclasses import dataclass
from decimal import Decimal

from django.core.exceptions import ImproperlyConfigured

from chains.catalogue import find_chain
from foundation.kernel.assets import Asset
from owner.wallets import open_wallet
from services.served_chains import served_chains


@dataclass(frozen=True, slots=True)
class Deposit:
    """Whole units of an asset for an agent, on a chain (alias)."""

    agent: str
    amount: str
    asset: Asset
    chain: str


def deposit(wanted: Deposit) -> int:
    """Make a deposit and wait until it is included; returns the number of the block.

    Raises:
        ImproperlyConfigured: the chain is not served here.
        CommandError: there is no key to deposit with.
    """
    chain = find_chain(wanted.chain)
    if chain is None or chain.caip2 not in served_chains():
        raise ImproperlyConfigured(f"The demo deposits on {wanted.chain}: it has to be served.")
    wallet = open_wallet(chain.caip2, lambda _: None)
    return wallet.deposit(wanted.agent, asset=wanted.asset, amount=Decimal(wanted.amount)).block_number
