"""Convert what is known of a request, its agent and its payee into the facts that the rules judge."""

from payments.deciding.locked import Locked, PayeeRecord
from payments.deciding.obstacles import find_obstacle
from payments.deciding.requests import Environment, PaymentRequest
from payments.deciding.running import RunningBatch
from policy.facts import Facts, PayeeFacts, make_facts


def facts_of(
    request: PaymentRequest, locked: Locked, environment: Environment, batch: RunningBatch | None = None
) -> Facts:
    """Convert what is known for the pure rules; `batch` has what was decided since."""
    agent, payee = locked.agent, locked.payee
    return make_facts(
        amount=request.amount,
        asset=request.asset,
        agent_is_active=agent.status == "active",
        agent_asset=agent.asset,
        balance=agent.balance,
        limits=locked.policy,
        spent_today=locked.spent_today,
        spent_this_week=locked.spent_this_week,
        payee=None if payee is None else _payee_facts(request, locked, payee, environment, batch),
        minimum=None if payee is None else environment.minimums.get(payee.chain, {}).get(request.asset),
    )


def _payee_facts(
    request: PaymentRequest, locked: Locked, payee: PayeeRecord, environment: Environment, batch: RunningBatch | None
) -> PayeeFacts:
    is_demanded = request.demand is None or request.demand.is_of(payee.chain, payee.address)
    return PayeeFacts(
        request.service,
        payee.is_approved,
        payee.asset,
        wants_it_elsewhere=not is_demanded,
        obstacle=find_obstacle(request, locked, payee, environment, batch) if payee.is_approved else None,
    )
