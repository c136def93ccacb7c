"""Convert what is known of a request, its agent and its payee into the facts that the rules judge."""

from payments.deciding.known import Known, PayeeRecord
from payments.deciding.obstacles import find_obstacle
from payments.deciding.requests import Environment, PaymentRequest
from payments.deciding.running import RunningBatch
from policy.facts import Facts, PayeeFacts, make_facts


def facts_of(
    request: PaymentRequest, known: Known, environment: Environment, batch: RunningBatch | None = None
) -> Facts:
    """Convert what is known for the pure rules; `batch` has what was decided since."""
    agent, payee = known.agent, known.payee
    return make_facts(
        amount=request.amount,
        asset=request.asset,
        agent_is_active=agent.status == "active",
        agent_asset=agent.asset,
        balance=agent.balance,
        limits=known.policy,
        spent_today=known.spent_today,
        spent_this_week=known.spent_this_week,
        payee=None if payee is None else _payee_facts(request, known, payee, environment, batch),
        minimum=None if payee is None else environment.minimums.get(payee.chain, {}).get(request.asset),
    )


def _payee_facts(
    request: PaymentRequest, known: Known, payee: PayeeRecord, environment: Environment, batch: RunningBatch | None
) -> PayeeFacts:
    is_demanded = request.demand is None or request.demand.is_of(payee.chain, payee.address)
    return PayeeFacts(
        request.service,
        payee.is_approved,
        payee.asset,
        wants_it_elsewhere=not is_demanded,
        obstacle=find_obstacle(request, known, payee, environment, batch) if payee.is_approved else None,
    )
