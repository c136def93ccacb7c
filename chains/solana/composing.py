"""Compose transactions from payments: their instructions, how many fit into one, and what it costs at most. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any

from solders.instruction import Instruction
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import Transaction

from chains.catalogue import ServedChain
from chains.port import ChainUnavailable, Order, PaymentPlan
from chains.solana.costs import find_fee, find_rent
from chains.solana.derivation import EscrowSigners, associated_account
from chains.solana.instructions import MOST_BYTES, Token, budget, pay_sol, pay_token
from chains.solana.obstacles import check_payee, is_new
from foundation.kernel.assets import Asset
from foundation.kernel.money import to_base_units

# The programs count in 64 bits.
_MOST_BASE_UNITS = 2**64 - 1
# The price in micro-lamports if the usual price is 0: for all units of the limit, a tenth of the fee.
LEAST_RAISED_PRICE = 10_000
_MOST_RAISES = 32
# A payment is rehearsed, then put together with others, then signed: its instructions are made once.
_keep = lru_cache(maxsize=256)
_pay_sol, _pay_token = _keep(pay_sol), _keep(pay_token)


@dataclass(frozen=True, slots=True)
class Draft:
    """The payments of one transaction, in their order: `steps` are their instructions, `makes` the accounts they make.

    It offers the highest of their prices for a compute unit.
    """

    payments: Sequence[PaymentPlan]
    unit_price: int
    steps: Sequence[Instruction]
    makes: frozenset[Pubkey] = frozenset()

    @property
    def instructions(self) -> list[Instruction]:
        return [*budget(self.unit_price, len(self.payments)), *self.steps]

    def followed_by(self, one: "Draft") -> "Draft":
        """Add the draft of one payment. A new payee's account that was made for an earlier one is there by then."""
        steps = one.steps[1:] if one.makes & self.makes else one.steps
        price = max(self.unit_price, one.unit_price)
        return Draft((*self.payments, *one.payments), price, (*self.steps, *steps), self.makes | one.makes)

    def find_most_lamports(self, state: Mapping[str, Any]) -> int:
        """Compute the most that it can cost: the fee for all units that it may use, and the rent of new accounts."""
        rent = find_rent(state["rentExempt"]["token"])
        return find_fee(self.unit_price, len(self.payments)) + len(self.makes) * rent

    def fits(self, payer: Pubkey) -> bool:
        """Return whether one transaction holds it, with its signatures. So few may use the units that they need."""
        return len(bytes(Transaction.new_unsigned(Message(self.instructions, payer)))) <= MOST_BYTES


class Composer:
    """Composes payments out of the escrow of `signers`; `max_unit_price` as of `SolanaPreparer`."""

    def __init__(self, served: ServedChain, signers: EscrowSigners, max_unit_price: int) -> None:
        self._served = served
        self._signers = signers
        self._max_unit_price = max_unit_price
        self._mints = {asset: Pubkey.from_string(mint) for asset, mint in served.tokens.items()}

    def compose(self, payments: Sequence[PaymentPlan], state: Mapping[str, Any]) -> Draft:
        """Compose a transaction. Raises `ChainUnavailable` if one of the payments cannot be made now."""
        return reduce(Draft.followed_by, [self._draft(one, state) for one in payments])

    def divide(self, payments: Sequence[PaymentPlan], state: Mapping[str, Any]) -> list[Sequence[PaymentPlan]]:
        """Fill one transaction after the other, in the order of the payments. Raises as `compose` does.

        Payments that offer different prices do not share one: each would pay the highest.
        """
        drafts: list[Draft] = []
        for one in (self._draft(payment, state) for payment in payments):
            if drafts and self._may_follow(drafts[-1], one):
                drafts[-1] = drafts[-1].followed_by(one)
            else:
                drafts.append(one)
        return [draft.payments for draft in drafts]

    def account_of(self, order: Order, state: Mapping[str, Any]) -> Pubkey:
        """Derive the recipient's account for the token of an order."""
        token = self._token(order.asset, state)
        return associated_account(Pubkey.from_string(order.recipient), token.mint, token.program)

    def _may_follow(self, draft: Draft, one: Draft) -> bool:
        if len(draft.payments) == self._served.most_together or draft.unit_price != one.unit_price:
            return False
        return draft.followed_by(one).fits(self._signers.relayer)

    def _draft(self, one: PaymentPlan, state: Mapping[str, Any]) -> Draft:
        order, price = one.order, self._price(one.order, state)
        token = self._token(order.asset, state)
        recipient, units = Pubkey.from_string(order.recipient), to_base_units(order.amount, order.asset)
        if units > _MOST_BASE_UNITS:
            raise ChainUnavailable("The amount is more than the chain can move at once.")
        if order.asset is Asset.SOL:
            rent = state["rentExempt"]
            # Each by itself: whether it shares a transaction with another one to the same recipient is chance.
            check_payee(units, one.payee, rent["account"])
            return Draft((one,), price, _pay_sol(self._signers, recipient, units, order.escrow_id, rent["token"]))
        account = self.account_of(order, state)
        makes = frozenset([account] if is_new(account, order.asset, one.payee) else [])
        steps = _pay_token(self._signers, token, recipient, units, order.escrow_id, makes_account=bool(makes))
        return Draft((one,), price, steps, makes)

    def _price(self, order: Order, state: Mapping[str, Any]) -> int:
        """Offer the usual price for a unit; four times as much for each transaction of the payment that has expired."""
        price: int = state["unitPriceMicroLamports"]
        if order.attempt:
            price = max(price, LEAST_RAISED_PRICE) * 4 ** min(order.attempt, _MOST_RAISES)
        return min(price, self._max_unit_price)

    def _token(self, asset: Asset, state: Mapping[str, Any]) -> Token:
        observed, objection = state["tokens"].get(asset), self._served.find_objection(asset, state)
        if objection or observed is None:
            raise ChainUnavailable(objection or f"{asset} was not observed on this chain.")
        return Token(self._mints[asset], Pubkey.from_string(observed["program"]), asset.decimals)
