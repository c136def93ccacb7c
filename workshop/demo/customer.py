"""Deposit into an escrow, on any chain, with a customer's own wallet."""

from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from chains.catalogue import find_chain
from foundation.kernel.assets import Asset
from services.served_chains import make_wallet, served_chains


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
        ImproperlyConfigured: the chain is not served here, or there is no key to deposit with.
    """
    chain = find_chain(wanted.chain)
    adapter = served_chains().get(chain.caip2) if chain else None
    if adapter is None or settings.DEPOSIT_KEY is None:
        raise ImproperlyConfigured(f"The demo deposits on {wanted.chain}: it has to be served, and DEPOSIT_KEY set.")
    wallet = make_wallet(adapter, settings.DEPOSIT_KEY, lambda _: None)
    return wallet.deposit(wanted.agent, asset=wanted.asset, amount=Decimal(wanted.amount)).block_number
