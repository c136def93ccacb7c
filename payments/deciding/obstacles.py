"""Find what stands in the way of a payment until somebody changes something: by configuration and observed state."""

import json
from datetime import datetime

from django.db.models import Q

from chains.port import Obstacle, Order
from payments.deciding.known import Known, PayeeRecord
from payments.deciding.requests import Environment, PaymentRequest
from payments.deciding.running import RunningBatch
from payments.deciding.signing_conditions import if_fresh
from payments.lifecycle import PaymentStatus
from payments.models import Payment

_NOT_SERVED = Obstacle(
    "The service is to be paid on a chain that is not served here. The operator has to change that, or the payee to be "
    "paid elsewhere."
)


def find_obstacle(
    request: PaymentRequest, known: Known, payee: PayeeRecord, environment: Environment, batch: RunningBatch | None
) -> Obstacle | None:
    """Find it for an approved payee; None: there is none, or it is not known well enough. Asks no node.

    What a payment on its way to the payee may remove passes by itself.
    """
    adapter = environment.chains.get(payee.chain)
    if adapter is None:
        return _NOT_SERVED
    if request.asset != payee.asset:
        return None  # refused for that, whatever else
    order = Order("", request.asset, request.amount, payee.address)
    if adapter.payee_accounts is None:
        return adapter.preparer.find_obstacle(order, {}, None)
    at, max_age = known.decided_at, environment.max_chain_state_age
    chain = if_fresh(known.chain, at=at, max_age=max_age)
    seen = if_fresh(known.payee_state, at=at, max_age=max_age)
    state, payee_state = (json.loads(one.state) if one else None for one in (chain, seen))
    obstacle = adapter.preparer.find_obstacle(order, state or {}, payee_state)
    if obstacle is None or obstacle.least is None or seen is None:
        return obstacle
    is_on_its_way = (batch is not None and batch.pays(payee)) or _is_paid_since(payee, seen.observed_at)
    return None if is_on_its_way else obstacle


def _is_paid_since(payee: PayeeRecord, observed_at: datetime) -> bool:
    """Tell whether a payment to a payee is not settled, or was not when its account was last looked at."""
    unseen = Q(status=PaymentStatus.APPROVED) | Q(status=PaymentStatus.SETTLED, settled_at__gte=observed_at)
    return Payment.objects.filter(unseen, chain=payee.chain, recipient=payee.address).exists()
