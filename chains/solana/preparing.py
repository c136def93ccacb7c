"""Sign payments: the relayer and the policy signer sign one message each. Asks no node."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from solders.hash import Hash
from solders.instruction import Instruction
from solders.message import Message
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import Transaction, VersionedTransaction

from chains.catalogue import ServedChain
from chains.port import (
    ChainUnavailable,
    Obstacle,
    Order,
    PaymentCosts,
    PaymentPlan,
    PaymentSigner,
    SignedTransaction,
    Submitter,
    TransactionPlan,
)
from chains.solana.costs import find_fee, find_rent, to_coins
from chains.solana.derivation import (
    TOKEN_PROGRAM,
    TOKEN_PROGRAMS,
    EscrowSigners,
    associated_account,
    relayer_key,
    relayer_keypair,
)
from chains.solana.instructions import Token, budget, pay_sol, pay_token
from chains.solana.obstacles import CLOSED, check_payee, find_rent_obstacle, is_new
from foundation.kernel.assets import Asset
from foundation.kernel.money import to_base_units

# The programs count in 64 bits.
_MOST_UNITS = 2**64 - 1
# The price in micro-lamports if the usual price is 0: for all units of the limit, a tenth of the fee.
LEAST_RAISED_PRICE = 10_000
_MOST_RAISES = 32


class SolanaPreparer:
    """Signs payments, for the escrow of `signers`; see `Preparer` for each method.

    `max_unit_price` is the highest offer for a compute unit, in micro-lamports.
    """

    # An escrow is a multisig of one relayer, the policy signer and the owner; without nonces, one relayer is enough.
    most_relayers = 1

    def __init__(
        self, served: ServedChain, relayer_seed: bytes, signers: EscrowSigners, max_unit_price: int = 5_000_000
    ) -> None:
        # A state that was observed for another escrow or other tokens is not used for signing.
        tokens = sorted(served.tokens.items())
        configured = f"{served.chain.caip2} {served.escrow} {tokens}"
        self.configuration = hashlib.sha256(configured.encode()).hexdigest()[:16]
        self._served = served
        self._seed = relayer_seed
        self._max_unit_price = max_unit_price
        self.signers = signers
        self._is_ours = signers.objection is None and str(signers.escrow(TOKEN_PROGRAM)) == served.escrow
        self._mints = {asset: Pubkey.from_string(mint) for asset, mint in served.tokens.items()}

    def escrow_id(self, payment_id: str, key_hash: bytes) -> str:
        # No program of the chain records payments: the id is only the memo, which people read.
        return payment_id

    def find_obstacle(self, order: Order, state: Mapping[str, Any], payee: Mapping[str, Any] | None) -> Obstacle | None:
        if excluded := self._served.find_exclusion(order.asset):
            return Obstacle.of_exclusion(excluded)
        is_known = state.get("configuration") == self.configuration and order.asset in state["tokens"]
        if payee is None or not is_known or self._served.find_objection(order.asset, state):
            return None
        if order.asset is not Asset.SOL:
            is_closed = str(self._account(order, state)) in payee.get("closed", ())
            return Obstacle(CLOSED.format(asset=order.asset)) if is_closed else None
        if "lamports" not in payee:
            return None
        return find_rent_obstacle(
            to_base_units(order.amount, Asset.SOL), payee["lamports"], state["rentExempt"]["account"]
        )

    def divide(self, plan: TransactionPlan) -> Sequence[Sequence[PaymentPlan]]:
        return [[one] for one in plan.payments]

    def prepare(self, plan: TransactionPlan, now: datetime) -> SignedTransaction:
        state = plan.state
        most_cost, instructions = self._compose(plan)
        relayer = relayer_keypair(self._seed, plan.submitter.relayer_number)
        message = Message.new_with_blockhash(instructions, self.signers.relayer, Hash.from_string(state["blockhash"]))
        signed = bytes(message)
        signatures = [relayer.sign_message(signed), Signature(plan.signer.cosign_message(signed))]
        return SignedTransaction(
            tx=str(signatures[0]),
            raw=bytes(Transaction.populate(message, signatures)),
            most_cost=most_cost,
            valid_until_height=state["lastValidBlockHeight"],
            valid_from_block=state["slot"],
        )

    def rehearse(self, plan: TransactionPlan) -> Decimal:
        return self._compose(plan)[0]

    def find_most_cost(self, order: Order, state: Mapping[str, Any], payee: Mapping[str, Any] | None) -> Decimal:
        if state.get("configuration") != self.configuration:
            raise ChainUnavailable("The chain was not observed with the present configuration.")
        lamports = find_fee(self._price(order, state))
        if order.asset is not Asset.SOL and self._is_new(order, state, payee):
            lamports += find_rent(state["rentExempt"]["token"])
        return to_coins(lamports)

    def find_payment_costs(self, state: Mapping[str, Any]) -> PaymentCosts:
        rent = find_rent(state["rentExempt"]["token"])
        highest = find_fee(self._max_unit_price) + rent
        return PaymentCosts(to_coins(find_fee(state["unitPriceMicroLamports"])), to_coins(highest))

    def relayer_address(self, number: int) -> str:
        return str(relayer_key(self._seed, number))

    def spends_from_escrow(self, raw: bytes) -> bool:
        escrows = {self.signers.escrow(program) for program in TOKEN_PROGRAMS}
        return not escrows.isdisjoint(VersionedTransaction.from_bytes(raw).message.account_keys)

    def _compose(self, plan: TransactionPlan) -> tuple[Decimal, list[Instruction]]:
        """Check everything, and give the highest cost of a payment and its instructions."""
        ((order, payee),) = ((one.order, one.payee) for one in plan.payments)
        submitter, state = plan.submitter, plan.state
        most_cost = self.find_most_cost(order, state, payee)
        if self.relayer_address(submitter.relayer_number) != submitter.relayer_address:
            # The seed has changed since the relayer was registered.
            raise ChainUnavailable("The relayer's key is not the one that it was registered with.")
        self._check_signers(submitter, plan.signer)
        return most_cost, [*budget(self._price(order, state)), *self._pay(order, state, payee)]

    def _check_signers(self, submitter: Submitter, signer: PaymentSigner) -> None:
        paying = relayer_key(self._seed, submitter.relayer_number), Pubkey(signer.solana_address)
        if not self._is_ours or paying != (self.signers.relayer, self.signers.policy_signer):
            raise ChainUnavailable("The escrow is not that of this relayer and this policy signer.")

    def _pay(self, order: Order, state: Mapping[str, Any], payee: Mapping[str, Any] | None) -> list[Instruction]:
        token = self._token(order.asset, state)
        recipient, units = Pubkey.from_string(order.recipient), to_base_units(order.amount, order.asset)
        if units > _MOST_UNITS:
            raise ChainUnavailable("The amount is more than the chain can move at once.")
        if order.asset is not Asset.SOL:
            is_new = self._is_new(order, state, payee)
            return pay_token(self.signers, token, recipient, units, order.escrow_id, makes_account=is_new)
        rent = state["rentExempt"]
        check_payee(units, payee, rent["account"])
        return pay_sol(self.signers, recipient, units, order.escrow_id, rent["token"])

    def _is_new(self, order: Order, state: Mapping[str, Any], payee: Mapping[str, Any] | None) -> bool:
        return is_new(self._account(order, state), order.asset, payee)

    def _account(self, order: Order, state: Mapping[str, Any]) -> Pubkey:
        token = self._token(order.asset, state)
        return associated_account(Pubkey.from_string(order.recipient), token.mint, token.program)

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
