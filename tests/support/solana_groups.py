"""Several payments that share a transaction, on Solana's virtual machine."""

import itertools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from solders.keypair import Keypair
from solders.pubkey import Pubkey

from chains.port import Order, PaymentPlan, SignedTransaction, TransactionPlan
from chains.solana.preparing import SolanaPreparer
from foundation.kernel.assets import Asset
from tests.support.solana_vm import NOW, SEED, Bench

# How many payments of a kind one transaction has room for.
MOST_TO_ACCOUNTS, MOST_TO_NEW_PAYEES, MOST_OF_SOL = 9, 5, 2
_numbers = itertools.count()


def new_id() -> str:
    """Make an id that is as long as those of payments."""
    return f"pay_{next(_numbers):026}"


def to_account(bench: Bench, asset: Asset = Asset.USDC, amount: str = "1.5") -> PaymentPlan:
    """Plan a payment of a token to a payee that has an account for it, which was seen."""
    payee = Keypair().pubkey()
    bench.fund(asset, payee, 0)
    return plan_payment(asset, amount, payee, {"opened": [str(bench.where(asset, payee))]})


def to_new_payee(asset: Asset = Asset.USDC, amount: str = "1.5") -> PaymentPlan:
    return plan_payment(asset, amount, Keypair().pubkey(), {"lamports": 0})


def plan_payment(asset: Asset, amount: str, payee: Pubkey, seen: Mapping[str, Any]) -> PaymentPlan:
    return PaymentPlan(Order(new_id(), asset, Decimal(amount), str(payee)), seen)


def plan_together(bench: Bench, payments: Sequence[PaymentPlan], **state: Any) -> TransactionPlan:
    return TransactionPlan(payments, bench.submitter, bench.state(**state), bench.signer)


def sign_together(bench: Bench, payments: Sequence[PaymentPlan], **state: Any) -> SignedTransaction:
    return bench.chain.prepare(plan_together(bench, payments, **state), NOW)


def divide(bench: Bench, payments: Sequence[PaymentPlan], most: int = 64, **state: Any) -> list[int]:
    """Divide payments into transactions, and see that none is lost; returns how many each has."""
    preparer = SolanaPreparer(bench.served(most_together=most), SEED, bench.signers)
    groups = preparer.divide(payments, plan_together(bench, payments, **state).state)
    assert [one for group in groups for one in group] == list(payments)
    return [len(group) for group in groups]


def received(bench: Bench, payments: Sequence[PaymentPlan]) -> list[Decimal]:
    """Read what each payee has, in units of its asset."""
    return [_holds(bench, one.order) for one in payments]


def _holds(bench: Bench, order: Order) -> Decimal:
    payee, asset = Pubkey.from_string(order.recipient), order.asset
    units = bench.lamports(payee) if asset is Asset.SOL else bench.units(asset, payee)
    return Decimal(units).scaleb(-asset.decimals)


def amounts(payments: Sequence[PaymentPlan]) -> list[Decimal]:
    return [one.order.amount for one in payments]
