"""Make the history: each agent in one transaction, then what waits for finance staff."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import ROUND_UP, Decimal
from functools import partial

from django.conf import settings
from django.db import connection, transaction

from backoffice.rollups import forget_totals, roll_up
from chains.catalogue import find_chain
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.models import Installation, Reconciliation, Relayer
from payments.settling.leases import hold
from payments.tasks import observe_chain, reconcile_chain, watch_deposits
from policy.models import Agent, AgentStatus, PolicyRevision
from policy.signer import local_signer
from workshop.demo.history import scenery
from workshop.demo.history.cast import (
    ELSEWHERE,
    LOCAL,
    AgentPlan,
    Payee,
    Revision,
    Stage,
    make_agents,
    make_payees,
)
from workshop.demo.history.changes import record_changes
from workshop.demo.history.happenings import Decided, Life
from workshop.demo.history.payees import register_payees
from workshop.demo.history.tables import Tables
from workshop.demo.history.webhooks import tell_payees
from workshop.demo.people import FIONA

_BATCH = 5_000
_POLL_S = 0.2
_FEWEST_DAYS, _MOST_DAYS = 14, 90
# The newest comparison with the chain covers what was settled before this; see `scenery.compare_with_chain`.
_ENDS_BEFORE = timedelta(minutes=30)
_UNSETTLED_FOR = timedelta(days=2)
_NEARLY = Decimal("0.98")
Report = Callable[[int], None]


def seed_history(payments: int, report: Report = lambda _count: None, *, seed: int | None = None) -> list[str]:
    """Make so many decisions, and all around them; returns the new agents. `report` gets how many there are so far."""
    _see_what_escrows_hold()
    now = utc_now()
    until = now - _ENDS_BEFORE
    days = max(_FEWEST_DAYS, min(_MOST_DAYS, payments // 50))
    stage = Stage(random.Random(seed), _new_suffix(), until - timedelta(days=days), until)  # noqa: S311 - examples
    payees = make_payees(stage)
    plans = make_agents(stage, payees, payments)
    relayers = {chain: _relayer_of(chain) for chain in (LOCAL, ELSEWHERE)}
    tables = Tables(bytes(Installation.objects.get().salt), relayers, _tokens())
    with transaction.atomic():
        register_payees(stage, payees)
    done = 0
    for plan in plans:
        _write_life(plan, until, tables, partial(_report_more, report, done))
        done += plan.decisions
    agents = [plan.id for plan in plans]
    record_changes(plans, [payee.id for payee in payees])
    _arrange(stage, agents, payees, now)
    roll_up(utc_now())
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return agents


def _report_more(report: Report, done: int, more: int) -> None:
    report(done + more)


def _arrange(stage: Stage, agents: list[str], payees: list[Payee], now: datetime) -> None:
    # No worker compares meanwhile: it would not know of what is settled here.
    with _alone(f"reconcile {LOCAL}"), transaction.atomic():
        scenery.set_money_aside(stage, agents, _tokens()[Asset.USDC])
        scenery.take_money_out(stage, agents[0])
        scenery.raise_an_alarm(stage, now)
        scenery.issue_keys(agents, now)
        tell_payees([payee.id for payee in payees], now)
        scenery.compare_with_chain(now - _ENDS_BEFORE / 2, now)


def _write_life(plan: AgentPlan, until: datetime, tables: Tables, report: Report) -> None:
    life, decisions = Life(plan, until, local_signer()), 0
    with transaction.atomic():
        agent = Agent.objects.create(id=plan.id, asset=plan.asset, created_at=plan.began_at)
        for one in life.live():
            if isinstance(one, Decided):
                decisions += 1
                tables.add_decided(one, is_open=_is_open(one, until))
            else:
                tables.add_moved(one)
            if tables.size >= _BATCH:
                tables.write()
                report(decisions)
        tables.write()
        revisions = [*plan.revisions, *_tightened(plan, life, until)]
        _write_policy(agent, revisions)
        agent.status = AgentStatus.ACTIVE if plan.paused_at is None else AgentStatus.PAUSED
        agent.policy_revision = revisions[-1].number
        agent.balance, agent.spent_total = life.balance, life.spent_total
        if life.last is not None:
            agent.last_entry_id, agent.last_entry_hash = life.last.id, life.last.hash
            agent.last_entry_at = life.last.decided_at
        agent.save()
        forget_totals()
    report(decisions)


def _is_open(one: Decided, until: datetime) -> bool:
    is_recent = one.entry.decided_at > until - _UNSETTLED_FOR
    return one.payee.chain == ELSEWHERE and is_recent and one.failed_at is None


def _write_policy(agent: Agent, revisions: list[Revision]) -> None:
    PolicyRevision.objects.bulk_create(
        PolicyRevision(
            agent=agent,
            number=one.number,
            max_per_payment=one.max_per_payment,
            daily_limit=one.daily_limit,
            weekly_limit=one.weekly_limit,
            created_by=one.by,
            created_at=one.since,
        )
        for one in revisions
    )


def _tightened(plan: AgentPlan, life: Life, until: datetime) -> list[Revision]:
    """Lower the limits of some agents in the end, so that 98 % of one is spent."""
    life.windows.advance(utc_now())
    spent_today = life.windows.day.total
    if not plan.is_near_its_limit or not spent_today:
        return []
    last = plan.revisions[-1]
    daily = (spent_today / _NEARLY).quantize(Decimal("0.01"), ROUND_UP)
    most = min(last.max_per_payment, daily)
    return [replace(last, number=last.number + 1, since=until, daily_limit=daily, max_per_payment=most, by=FIONA)]


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """Hold a worker's lease as soon as it is free."""
    while True:
        with hold(name) as is_ours:
            if is_ours:
                yield
                return
        time.sleep(_POLL_S)


def _new_suffix() -> str:
    """Name the agents and payees of this run: those of the first one have plain names."""
    numbers = ("", *(f"-r{number}" for number in range(2, 1000)))
    return next(one for one in numbers if not Agent.objects.filter(pk=f"agent-research{one}").exists())


def _see_what_escrows_hold() -> None:
    """Compare with the local chain before there is a history, as far as no worker has done so."""
    if LOCAL in settings.CHAINS and not Reconciliation.objects.filter(chain=LOCAL).exists():
        for look in (observe_chain, watch_deposits, reconcile_chain):
            look(LOCAL)


def _relayer_of(chain: str) -> int:
    """Find the row that submitted everything on a chain; make one if no worker has looked at the chain yet."""
    known = Relayer.objects.filter(chain=chain).order_by("number").first()
    address = "0x" + "00" * 20
    return (known or Relayer.objects.create(chain=chain, number=0, address=address, is_enabled=False)).pk


def _tokens() -> dict[str, str]:
    served = settings.CHAINS.get(LOCAL)
    if served is not None:
        return {str(asset): token for asset, token in served.tokens.items()}
    known = find_chain(ELSEWHERE)
    return {str(asset): known.tokens.get(asset, "") if known else "" for asset in Asset}
