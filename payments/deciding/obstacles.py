"""Find what stands in the way of a payment until somebody changes something: by configuration and observed state."""

import json

from chains.port import Obstacle, Order
from payments.deciding.locked import Locked, PayeeRecord
from payments.deciding.requests import Environment, PaymentRequest
from payments.deciding.signing_conditions import if_fresh

_NOT_SERVED = Obstacle(
    "The service is to be paid on a chain that is not served here. The operator has to change that, or the payee to be "
    "paid elsewhere."
)


def find_obstacle(
    request: PaymentRequest, locked: Locked, payee: PayeeRecord, environment: Environment
) -> Obstacle | None:
    """Find it for an approved payee; None: there is none, or it is not known well enough. Asks no node."""
    adapter = environment.chains.get(payee.chain)
    if adapter is None:
        return _NOT_SERVED
    if request.asset != payee.asset:
        return None  # refused for that, whatever else
    order = Order("", request.asset, request.amount, payee.address)
    if adapter.payee_accounts is None:
        return adapter.find_obstacle(order, {}, None)
    at, max_age = locked.decided_at, environment.max_chain_state_age
    chain = if_fresh(locked.chain, at=at, max_age=max_age)
    seen = if_fresh(locked.payee_state, at=at, max_age=max_age)
    state, payee_state = (json.loads(one.state) if one else None for one in (chain, seen))
    return adapter.find_obstacle(order, state or {}, payee_state)
