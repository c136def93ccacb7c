"""What staff and customers do about the agents of a history, while these go on asking for payments."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import ROUND_UP, Decimal
from functools import partial

from chains.port import DepositEvent
from ledger.queries import find_budgets
from payments.funding.deposits import record_deposits
from policy.limits import Limits
from policy.models import Agent
from policy.operations import create_agent, pause_agent, set_policy
from policy.parents import lock_agent
from workshop.demo.history.cast import LOCAL, Act, AgentPlan, Stage
from workshop.demo.people import FIONA

DEPOSITOR = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
_NEARLY = Decimal("0.98")
_SHORTLY = timedelta(milliseconds=1)


def find_agent_acts(plan: AgentPlan) -> Iterator[Act]:
    """List what is done about an agent at moments that are known beforehand."""
    first, *later = plan.revisions
    yield first.since, partial(create_agent, plan.id, asset=plan.asset, limits=first.limits, by=first.by)
    for one in later:
        yield one.since, partial(set_policy, plan.id, change=partial(_replace, one.limits), by=one.by)
    if plan.paused_at is not None:
        reason = "It asked for more and more of the same."
        yield plan.paused_at, partial(pause_agent, plan.id, by=FIONA, reason=reason)


def deposit_for(plans: Sequence[AgentPlan], at: datetime, stage: Stage, token_of: dict[str, str]) -> None:
    """Let customers deposit for those agents that have little left at a moment."""
    balances = dict(Agent.objects.filter(pk__in=[plan.id for plan in plans]).values_list("pk", "balance"))
    for plan in plans:
        if balances[plan.id] >= plan.usual_deposit / 4 or at >= (plan.last_deposit_at or stage.until):
            continue
        found = DepositEvent(
            stage.new_tx(), 0, 1, DEPOSITOR, token_of[plan.asset], plan.asset, plan.usual_deposit, plan.id
        )
        record_deposits(LOCAL, [found], {plan.id: lock_agent(plan.id)}, now=at - _SHORTLY)


def tighten(plan: AgentPlan, until: datetime) -> None:
    """Lower an agent's limit of a day in the end, so that 98 % of it is spent."""
    spent = find_budgets([plan.id])[plan.id].spent_today
    if not spent:
        return
    daily = (spent / _NEARLY).quantize(Decimal("0.01"), ROUND_UP)

    def lower(last: Limits) -> Limits:
        return replace(last, daily_limit=daily, max_per_payment=min(last.max_per_payment, daily))

    set_policy(plan.id, change=lower, by=FIONA, now=until)


def _replace(by: Limits, _last: Limits) -> Limits:
    return by
