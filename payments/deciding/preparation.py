"""Prepare an approved payment: find out what speaks against it on its chain, and plan its transaction.

It is signed together with the others of its batch (`signing.py`). If the payee is to take the money itself, as its 402
asks (x402), an authorization is signed instead, here. Asks no node: the state of the chain was read together with the
agent. Source for x402: docs/contract.md, "x402".
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from chains.port import (
    ChainAdapter,
    ChainUnavailable,
    Order,
    SignedAuthorization,
    Submitter,
    TransactionPlan,
    TransferAuthorizer,
)
from foundation.kernel.errors import InvalidRequest
from foundation.kernel.ids import new_id
from foundation.kernel.repeated_logs import log_once_a_minute
from payments.deciding.known import Known, PayeeRecord, RelayerRecord
from payments.deciding.reading import read_gas
from payments.deciding.requests import Demand, Environment, PaymentRequest, Prepared
from payments.deciding.running import DecideAgain
from payments.deciding.signing_conditions import if_fresh, require_signable
from policy.objections import DAY

log = logging.getLogger(__name__)

_X402_VERSION = 2
GasInBatch = Callable[[str, str], Decimal]


@dataclass(frozen=True, slots=True)
class Fee:
    """The most that a payment's transaction costs, in units of the chain's coin; `chain` is CAIP-2."""

    chain: str
    at_most: Decimal


def prepare_payment(
    request: PaymentRequest, known: Known, environment: Environment, gas_in_batch: GasInBatch
) -> Prepared:
    """Check all that an approved payment needs on its chain; of one that its payee takes, sign the authorization, too.

    `gas_in_batch` sums the most that an agent's payments of the same batch can cost on a chain.

    Raises:
        SignerUnavailable: the policy signer is out of service, or refuses to sign.
        ChainUnavailable: the payment cannot be prepared on the payee's chain now.
        DecideAgain: the relayer's gas money does not pay for this payment of the batch; another relayer's may.
        InvalidRequest: what the payee asks for cannot be authorized there. Nothing is stored.
    """
    prepared = _plan(request, known, environment, gas_in_batch)
    if request.demand is None:
        return prepared
    return replace(prepared, authorization=_authorize(prepared, request.demand, known.decided_at))


def payment_payload(authorization: SignedAuthorization, demand: Demand) -> dict[str, Any]:
    """Return x402's PaymentPayload, which the payee is sent as Base64 in the header `PAYMENT-SIGNATURE`."""
    return {
        "x402Version": _X402_VERSION,
        "accepted": dict(demand.requirements),
        "payload": dict(authorization.payload),
    }


def rehearse_payment(request: PaymentRequest, known: Known, environment: Environment) -> Fee:
    """Check all that `prepare_payment` checks, and sign nothing; returns what the payment would cost. Raises as that.

    Whether the signer signs is only known once it does.
    """
    prepared = _plan(request, known, environment, lambda _agent, _chain: Decimal(0))
    return Fee(prepared.payee.chain, prepared.most_cost)


def _plan(request: PaymentRequest, known: Known, environment: Environment, gas_in_batch: GasInBatch) -> Prepared:
    payee, at, max_age = known.payee, known.decided_at, environment.max_chain_state_age
    adapter = None if payee is None else environment.chains.get(payee.chain)
    if payee is None or adapter is None:
        raise ChainUnavailable("The service's chain is not served here.")
    chain = require_signable(known.chain, is_signing=known.is_signing, at=at, max_age=max_age)
    relayer = _require_relayer(known, payee)
    if known.key_hash is None or known.is_key_used:
        raise ChainUnavailable("The service's chain has used up this Idempotency-Key without our knowledge.")
    payment_id = new_id("pay", at) if request.held is None else request.held.payment_id
    escrow_id = adapter.preparer.escrow_id(payment_id, known.key_hash)
    order = Order(escrow_id, request.asset, request.amount, payee.address)
    fresh_payee = if_fresh(known.payee_state, at=at, max_age=max_age)
    payee_state = None if fresh_payee is None else json.loads(fresh_payee.state)
    submitter = Submitter(relayer.number, relayer.address, relayer.next_nonce)
    plan = TransactionPlan.of_one(order, submitter, read_state(chain.state), environment.signer, payee_state)
    most_cost = adapter.preparer.rehearse(plan)
    if environment.gas_budget is not None and request.demand is None:
        used = gas_in_batch(request.agent_id, payee.chain)
        _check_gas(request, known, payee.chain, used + most_cost, environment.gas_budget)
    return Prepared(payment_id, adapter, plan, payee, relayer, most_cost)


def check_demand(request: PaymentRequest, known: Known, environment: Environment) -> None:
    """Check that a payee could take what is held for a person's approval, as far as that is known; signs nothing.

    Raises:
        InvalidRequest: what the payee asks for cannot be authorized there.
    """
    payee = known.payee
    chain = if_fresh(known.chain, at=known.decided_at, max_age=environment.max_chain_state_age)
    adapter = None if payee is None else environment.chains.get(payee.chain)
    if request.demand is not None and payee is not None and chain is not None and adapter is not None:
        order = Order("", request.asset, request.amount, payee.address)
        _require_authorizable(adapter, order, request.demand, read_state(chain.state))


@lru_cache(maxsize=64)
def read_state(text: str) -> Mapping[str, Any]:
    """Read the observed state of a chain, which many payments share."""
    state: dict[str, Any] = json.loads(text)
    return MappingProxyType(state)


def _authorize(prepared: Prepared, demand: Demand, at: datetime) -> SignedAuthorization:
    plan = prepared.plan
    authorizations = _require_authorizable(prepared.adapter, plan.orders[0], demand, plan.state)
    return authorizations.authorize(plan, demand.terms, at)


def _require_authorizable(
    adapter: ChainAdapter, order: Order, demand: Demand, state: Mapping[str, Any]
) -> TransferAuthorizer:
    if adapter.authorizations is None:
        raise InvalidRequest.of("paymentRequirements", "No payee on this chain can take its money itself.")
    if objection := adapter.authorizations.find_objection(order, demand.terms, state):
        raise InvalidRequest.of("paymentRequirements", objection)
    return adapter.authorizations


def _require_relayer(known: Known, payee: PayeeRecord) -> RelayerRecord:
    if known.relayer_in_need is not None:
        log_once_a_minute(
            log, logging.WARNING, "%s: no relayer has the gas money for another payment; send some to %s", payee.chain,
            known.relayer_in_need, about=payee.chain,
        )  # fmt: skip
        raise ChainUnavailable("No relayer of the service's chain has the gas money for another payment.")
    if known.relayer is None:
        raise ChainUnavailable("No relayer is free on the service's chain.")
    if known.relayer_room is not None and known.relayer_room <= 0:
        raise DecideAgain
    return known.relayer


def _check_gas(request: PaymentRequest, known: Known, chain: str, most_cost: Decimal, budget: Decimal) -> None:
    """Refuse a payment that, with those before it in its batch, could cost more than is left of the gas budget."""
    # Read under the agent's lock, so that all its transactions in flight are committed.
    used = read_gas(request.agent_id, chain, known.decided_at - DAY)
    if used + most_cost <= budget:
        return
    log_once_a_minute(
        log, logging.WARNING, "Agent %s has used up its gas budget of 24 hours on %s", request.agent_id, chain,
        about=(request.agent_id, chain),
    )  # fmt: skip
    raise ChainUnavailable("The agent's gas budget of 24 hours is used up on the service's chain.")
