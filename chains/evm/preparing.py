"""Sign the relayers' transactions: payments, replacements, voids, and fillers of nonces. Asks no node."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from eth_utils.crypto import keccak

from chains.catalogue import ServedChain
from chains.evm.derivation import derive_account
from chains.evm.eip1559 import Fees, read_call, sign_call
from chains.evm.escrow_calls import (
    batch_digest,
    listed_words,
    pay_call,
    pay_many_call,
    payment_digest,
    payment_words,
    void_call,
    void_digest,
    void_words,
)
from chains.evm.fees import FeeLimits, raise_fees, to_coins
from chains.evm.secp256k1 import SigningKey
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
from foundation.kernel.money import to_base_units

# What the escrow grants a token for each payment of a list (`TOKEN_GAS` and `TOKEN_VIEW_GAS` in its contract), and its
# own work: so no token takes the gas of the others, without which the escrow would refuse the whole list.
# `pay` uses 75,000 to 135,000 gas with the test token; real tokens add a proxy and a blocklist to the same work.
_GAS_OF_A_PAYMENT, _GAS_OF_A_CALL = 250_000, 50_000
GAS_LIMIT = _GAS_OF_A_CALL + _GAS_OF_A_PAYMENT


class EvmPreparer:
    """Signs transactions; see `Preparer` and `NonceAdapter` for each method.

    After `validity` of chain time the escrow refuses a payment.
    """

    most_relayers = None

    def __init__(self, served: ServedChain, relayer_seed: bytes, fee_limits: FeeLimits, validity: timedelta) -> None:
        self._served = served
        self._validity = validity
        # A state that was observed for another escrow or other tokens is not used for signing.
        tokens = sorted(served.tokens.items())
        self.configuration = keccak(text=f"{served.chain.caip2} {served.escrow} {tokens}").hex()[:16]
        self._seed = relayer_seed
        self._fee_limits = fee_limits

    def escrow_id(self, payment_id: str, key_hash: bytes) -> str:
        return "0x" + key_hash.hex()

    def find_obstacle(self, order: Order, state: Mapping[str, Any], payee: Mapping[str, Any] | None) -> Obstacle | None:
        excluded = self._served.find_exclusion(order.asset)
        return None if excluded is None else Obstacle.of_exclusion(excluded)

    def divide(self, payments: Sequence[PaymentPlan], state: Mapping[str, Any]) -> Sequence[Sequence[PaymentPlan]]:
        # An escrow of an earlier release pays one at a time.
        most = min(self._served.most_together, state.get("mostTogether", 1))
        return [payments[start : start + most] for start in range(0, len(payments), most)]

    def prepare(self, plan: TransactionPlan, now: datetime) -> SignedTransaction:
        self.check(plan)
        deadline = int((now + self._validity).timestamp())
        data = self._pay(plan, deadline) if len(plan.payments) == 1 else self._pay_many(plan, deadline)
        signed = self._sign(plan.submitter, self._escrow, data, _fees(plan.state, len(plan.payments)))
        return replace(signed, valid_until=datetime.fromtimestamp(deadline, UTC))

    def _pay(self, plan: TransactionPlan, deadline: int) -> bytes:
        (order,) = plan.orders
        payment = payment_words(*self._words(order), deadline)
        digest = payment_digest(self._served.chain.chain_id, self._served.escrow, payment)
        return pay_call(payment, plan.signer.cosign_digest(digest))

    def _pay_many(self, plan: TransactionPlan, deadline: int) -> bytes:
        payments = [listed_words(*self._words(order)) for order in plan.orders]
        digest = batch_digest(self._served.chain.chain_id, self._served.escrow, payments, deadline)
        return pay_many_call(payments, deadline, plan.signer.cosign_digest(digest))

    def _words(self, order: Order) -> tuple[str, str, str, int]:
        units = to_base_units(order.amount, order.asset)
        return order.escrow_id, self._served.tokens[order.asset], order.recipient, units

    def rehearse(self, plan: TransactionPlan) -> Decimal:
        self.check(plan)
        return to_coins(gas_limit(len(plan.payments)) * _fees(plan.state).max_fee_per_gas)

    def find_payment_costs(self, state: Mapping[str, Any]) -> PaymentCosts:
        return PaymentCosts(
            to_coins(GAS_LIMIT * _fees(state).max_fee_per_gas), to_coins(GAS_LIMIT * self._fee_limits.most)
        )

    def prepare_void(
        self, escrow_id: str, submitter: Submitter, state: Mapping[str, Any], signer: PaymentSigner
    ) -> SignedTransaction:
        self._check(state)
        self.key_of(submitter)
        void = void_words(escrow_id)
        cosignature = signer.cosign_digest(void_digest(self._served.chain.chain_id, self._served.escrow, void))
        return self._sign(submitter, self._escrow, void_call(void, cosignature), _fees(state))

    def prepare_filler(self, submitter: Submitter, state: Mapping[str, Any]) -> SignedTransaction:
        # A transfer of nothing from the relayer to itself. It has the gas limit of a payment, since the gas of a plain
        # transfer differs between chains; unused gas is not paid.
        to = bytes.fromhex(submitter.relayer_address.removeprefix("0x"))
        return self._sign(submitter, to, b"", _fees(state))

    def raise_fee(self, raw: bytes, submitter: Submitter, state: Mapping[str, Any]) -> SignedTransaction | None:
        to, data, old = read_call(raw)
        fees = raise_fees(old, _fees(state), self._fee_limits)
        return None if fees is None else self._sign(submitter, to, data, fees)

    def relayer_address(self, number: int) -> str:
        return derive_account(self._seed, number)[1]

    def spends_from_escrow(self, raw: bytes) -> bool:
        return read_call(raw)[0] == self._escrow

    @property
    def _escrow(self) -> bytes:
        return bytes.fromhex(self._served.escrow.removeprefix("0x"))

    def _check(self, state: Mapping[str, Any]) -> None:
        if state.get("configuration") != self.configuration:
            raise ChainUnavailable("The chain was not observed with the present configuration.")

    def check(self, plan: TransactionPlan) -> None:
        """Raise `ChainUnavailable` if its payments cannot be signed now."""
        self._check(plan.state)
        for asset in {order.asset for order in plan.orders}:
            if objection := self._served.find_objection(asset, plan.state):
                raise ChainUnavailable(objection)
        self.key_of(plan.submitter)

    def key_of(self, submitter: Submitter) -> SigningKey:
        """Derive a relayer's key; raises `ChainUnavailable` if the relayer was registered with another one."""
        key, address = derive_account(self._seed, submitter.relayer_number)
        if address != submitter.relayer_address:
            # The seed has changed since the relayer was registered: the nonces are those of another account.
            raise ChainUnavailable("The relayer's key is not the one that it was registered with.")
        return key

    def _sign(self, submitter: Submitter, to: bytes, data: bytes, fees: Fees) -> SignedTransaction:
        key = self.key_of(submitter)
        tx, raw = sign_call(
            key, chain_id=self._served.chain.chain_id, nonce=submitter.required_nonce, to=to, data=data, fees=fees
        )
        return SignedTransaction(tx=tx, raw=raw, most_cost=to_coins(fees.gas * fees.max_fee_per_gas))


def gas_limit(payments: int) -> int:
    """Return the gas limit of a transaction of so many payments."""
    return _GAS_OF_A_CALL + payments * _GAS_OF_A_PAYMENT


def _fees(state: Mapping[str, Any], payments: int = 1) -> Fees:
    return Fees(gas_limit(payments), state["maxFeePerGas"], state["maxPriorityFeePerGas"])
