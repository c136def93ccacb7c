"""Sign payments: the relayer and the policy signer sign the message of one, or of several. Asks no node."""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

from solders.hash import Hash
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
from chains.solana.composing import Composer, Draft
from chains.solana.costs import find_fee, find_rent, to_coins
from chains.solana.derivation import TOKEN_PROGRAM, TOKEN_PROGRAMS, EscrowSigners, relayer_key, relayer_keypair
from chains.solana.obstacles import CLOSED, find_rent_obstacle
from foundation.kernel.assets import Asset
from foundation.kernel.money import to_base_units


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
        self._composer = Composer(served, signers, max_unit_price)

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
            is_closed = str(self._composer.account_of(order, state)) in payee.get("closed", ())
            return Obstacle(CLOSED.format(asset=order.asset)) if is_closed else None
        if "lamports" not in payee:
            return None
        return find_rent_obstacle(
            to_base_units(order.amount, Asset.SOL), payee["lamports"], state["rentExempt"]["account"]
        )

    def divide(self, payments: Sequence[PaymentPlan], state: Mapping[str, Any]) -> Sequence[Sequence[PaymentPlan]]:
        if min(len(payments), self._served.most_together) == 1:
            return [[one] for one in payments]
        self._check_observed(state)
        return self._composer.divide(payments, state)

    def prepare(self, plan: TransactionPlan, now: datetime) -> SignedTransaction:
        state, draft = plan.state, self._compose(plan)
        relayer = relayer_keypair(self._seed, plan.submitter.relayer_number)
        blockhash = Hash.from_string(state["blockhash"])
        message = Message.new_with_blockhash(draft.instructions, self.signers.relayer, blockhash)
        signed = bytes(message)
        signatures = [relayer.sign_message(signed), Signature(plan.signer.cosign_message(signed))]
        return SignedTransaction(
            tx=str(signatures[0]),
            raw=bytes(Transaction.populate(message, signatures)),
            most_cost=to_coins(draft.find_most_lamports(state)),
            valid_until_height=state["lastValidBlockHeight"],
            valid_from_block=state["slot"],
        )

    def rehearse(self, plan: TransactionPlan) -> Decimal:
        return to_coins(self._compose(plan).find_most_lamports(plan.state))

    def find_payment_costs(self, state: Mapping[str, Any]) -> PaymentCosts:
        rent = find_rent(state["rentExempt"]["token"])
        highest = find_fee(self._max_unit_price) + rent
        return PaymentCosts(to_coins(find_fee(state["unitPriceMicroLamports"])), to_coins(highest))

    def relayer_address(self, number: int) -> str:
        return str(relayer_key(self._seed, number))

    def spends_from_escrow(self, raw: bytes) -> bool:
        escrows = {self.signers.escrow(program) for program in TOKEN_PROGRAMS}
        return not escrows.isdisjoint(VersionedTransaction.from_bytes(raw).message.account_keys)

    def _compose(self, plan: TransactionPlan) -> Draft:
        """Check everything, and compose the transaction of one payment or several."""
        submitter = plan.submitter
        self._check_observed(plan.state)
        if self.relayer_address(submitter.relayer_number) != submitter.relayer_address:
            # The seed has changed since the relayer was registered.
            raise ChainUnavailable("The relayer's key is not the one that it was registered with.")
        self._check_signers(submitter, plan.signer)
        return self._composer.compose(plan.payments, plan.state)

    def _check_observed(self, state: Mapping[str, Any]) -> None:
        if state.get("configuration") != self.configuration:
            raise ChainUnavailable("The chain was not observed with the present configuration.")

    def _check_signers(self, submitter: Submitter, signer: PaymentSigner) -> None:
        paying = relayer_key(self._seed, submitter.relayer_number), Pubkey(signer.solana_address)
        if not self._is_ours or paying != (self.signers.relayer, self.signers.policy_signer):
            raise ChainUnavailable("The escrow is not that of this relayer and this policy signer.")
