"""Convert what is known of a request, its agent and its payee into the facts that the rules judge."""

import json
import logging
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from django.db.models import Q

from chains.port import Obstacle, Order
from foundation.kernel.errors import PolicySignerUnavailable
from foundation.kernel.repeated_logs import log_once_a_minute
from payments.deciding.counted import NOTHING_HELD, HeldRecord, PayeeCountedRecord
from payments.deciding.known import Known, PayeeRecord
from payments.deciding.requests import Environment, PaymentRequest
from payments.deciding.running import RunningBatch
from payments.deciding.signing_conditions import if_fresh
from payments.lifecycle import PaymentStatus
from payments.models import Payment
from policy.facts import NOTHING_COUNTED, Counted, Facts, Level, PayeeFacts, make_facts
from policy.more_limits import NO_MORE

log = logging.getLogger(__name__)
_NOTHING = Decimal(0)
_NO_PAYEE = PayeeCountedRecord(_NOTHING, _NOTHING, _NOTHING, _NOTHING)
_NOT_SERVED = Obstacle(
    "The service is to be paid on a chain that is not served here. The operator has to change that, or the payee to be "
    "paid elsewhere."
)


def facts_of(
    request: PaymentRequest, known: Known, environment: Environment, batch: RunningBatch | None = None
) -> Facts:
    """Convert what is known for the pure rules; `batch` has what was decided since.

    What is held for a person's approval counts as paid, in the balance and in every window, but not as a payment to its
    payee: the next one to that payee may be the first, too.

    Raises:
        PolicySignerUnavailable: it is not certain who is above the agent, or what a limit compares.
    """
    if not _is_in_place(known):
        log_once_a_minute(log, logging.ERROR, "Who is above an agent is not known: run manage.py verify_log")
        raise PolicySignerUnavailable("The agent's place under others is not certain. Try again later.")
    payee = known.payee
    facts = _judged_by(
        request,
        known,
        payee=None if payee is None else _payee_facts(request, known, payee, environment, batch),
        minimum=None if payee is None else environment.minimums.get(payee.chain, {}).get(request.asset),
    )
    if not known.levels:
        return facts
    levels = [
        Level(one.agent.id, one.agent.policy_revision, _judged_by(request, one, facts.payee, facts.minimum))
        for one in known.levels
    ]
    return replace(facts, levels=tuple(levels))


def _is_in_place(known: Known) -> bool:
    """Tell whether each agent above was read, and whether their policies name them: a column alone is not believed."""
    path = [known, *known.levels]
    above = [*reversed(known.agent.ancestors or ())]
    return [one.policy.more.parent for one in path] == [*above, None] and [one.agent.id for one in path[1:]] == above


def _judged_by(request: PaymentRequest, known: Known, payee: PayeeFacts | None, minimum: Decimal | None) -> Facts:
    """Give the facts by which the agent that pays judges a payment, or one above it."""
    agent, held = known.agent, known.held or NOTHING_HELD
    return make_facts(
        amount=request.amount,
        asset=request.asset,
        agent_is_active=agent.status == "active",
        agent_asset=agent.asset,
        balance=max(agent.balance - held.own, _NOTHING),
        limits=known.policy,
        spent_today=known.spent_today + held.amount,
        spent_this_week=known.spent_this_week + held.amount,
        payee=payee,
        minimum=minimum,
        counted=_count(known, held),
        at=known.decided_at,
    )


def _count(known: Known, held: HeldRecord) -> Counted:
    """Convert what optional limits compare.

    Raises:
        PolicySignerUnavailable: what a limit compares is not known, as where the tally of payments is not that of the
            log.
    """
    more, of_agent, of_payee = known.policy.more, known.counted, known.payee_counted
    if more is NO_MORE:
        return NOTHING_COUNTED
    if of_agent is None or (more.needs_tally and (of_agent.payments is None or of_payee is None)):
        raise _cannot_be_counted()
    to_payee = of_payee or _NO_PAYEE  # which no limit needs then
    # The exceptions of some payees may have each of these limits.
    days, weeks = ((limit, more.payee_limits) for limit in (more.payee_daily_limit, more.payee_weekly_limit))
    return Counted(
        spent_this_hour=_require(of_agent.spent_this_hour, more.hourly_limit) + held.amount,
        spent_this_month=_require(of_agent.spent_this_month, more.monthly_limit) + held.amount,
        spent_ever=_require(of_agent.spent_ever, more.total_limit) + held.amount,
        payments_this_hour=int(_require(of_agent.payments_this_hour, more.payments_per_hour) + held.payments),
        payments_today=int(_require(of_agent.payments_today, more.payments_per_day) + held.payments),
        payee_spent_today=_require(to_payee.spent_today, *days) + held.to_payee,
        payee_spent_this_week=_require(to_payee.spent_this_week, *weeks) + held.to_payee,
        payee_payments=int(_require(to_payee.payments, more.new_payee_payments, more.approval_for_first)),
    )


def _require(figure: Decimal | None, *limits: object) -> Decimal:
    """Return what these limits compare; 0 where there is none of them, so that nothing is counted."""
    if figure is None and limits != (None,) * len(limits):
        raise _cannot_be_counted()
    return figure or _NOTHING


def _cannot_be_counted() -> PolicySignerUnavailable:
    log_once_a_minute(log, logging.ERROR, "What an agent's limits compare is not known: run manage.py verify_log")
    return PolicySignerUnavailable("The agent's payments cannot be counted now. Try again later.")


def _payee_facts(
    request: PaymentRequest, known: Known, payee: PayeeRecord, environment: Environment, batch: RunningBatch | None
) -> PayeeFacts:
    is_demanded = request.demand is None or request.demand.is_of(payee.chain, payee.address)
    return PayeeFacts(
        request.service,
        payee.is_approved,
        payee.asset,
        wants_it_elsewhere=not is_demanded,
        obstacle=_find_obstacle(request, known, payee, environment, batch) if payee.is_approved else None,
        approved_at=payee.decided_at if payee.is_approved else None,
        tags=payee.tags,
    )


def _find_obstacle(
    request: PaymentRequest, known: Known, payee: PayeeRecord, environment: Environment, batch: RunningBatch | None
) -> Obstacle | None:
    """Find what stands in the way until somebody changes something; None: nothing, or it is not known. Asks no node.

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
