"""The cast of the benchmark."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from django.db import connection, transaction

from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, MovementKind
from payments.tasks import observe_chain
from policy.hours import parse_hours
from policy.models import Agent, PolicyRevision
from policy.more_limits import NO_MORE, MoreLimits, write_more
from policy.payee_limits import PayeeException
from services.models import Service
from services.served_chains import served_chains
from tests.support.factories import make_agent, make_api_key, make_service

PLENTY = "1000000000"
_LEAVES = 100


@dataclass(frozen=True)
class Cast:
    """Agents that pay over HTTP, the service they pay, the key they pay with; two more agents that nobody uses yet.

    `limited`: as many agents whose policies have all optional limits, so high that none refuses. `flat`: a hundred
    under one root; `deep`: a hundred with four agents above them.
    """

    agents: list[str]
    limited: list[str]
    flat: list[str]
    deep: list[str]
    service: str
    key: str
    spare: list[str]


def seed(count: int) -> Cast:
    """Make `count` agents with plenty to spend, as many again for the baseline, and what both need."""
    for chain in served_chains():
        observe_chain(chain)
    service = make_service()
    Service.objects.filter(pk=service.pk).update(decided_at=utc_now() - timedelta(days=2))
    first = make_agent(max_per_payment=PLENTY, daily_limit=PLENTY, weekly_limit=PLENTY, balance=PLENTY)
    agents = [first.id, *(f"bench-{number}" for number in range(1, count))]
    spare = ["spare-1", "spare-2"]
    limited = [f"limited-{number}" for number in range(1, count + 1)]
    clones = [*agents[1:], *spare, *limited, *(f"baseline-{number}" for number in range(1, count + 1))]
    policy = PolicyRevision.objects.get(agent=first)
    Agent.objects.bulk_create(_cloned(first, name) for name in clones)
    more = _all_limits(service.id)
    PolicyRevision.objects.bulk_create(
        _cloned_policy(policy, name, more if name in limited else NO_MORE) for name in clones
    )
    BalanceMovement.objects.bulk_create(_funding(first, name) for name in clones)
    flat, deep = (_grow_tree(policy, first, name, levels) for name, levels in (("flat", 1), ("deep", 4)))
    with connection.cursor() as cursor:
        cursor.execute((Path(__file__).parent / "baseline.sql").read_text())
        # Not the tables that are still empty: the plans of an empty table would be kept while it grows.
        cursor.execute("VACUUM ANALYZE policy_agent, policy_policyrevision")
    return Cast(agents, limited, flat, deep, service.id, make_api_key(), spare)


def write_history(cast: Cast, count: int) -> None:
    """Add so many payments of the paying agents that were settled, and compared with the chain, long ago."""
    with connection.cursor() as cursor:
        cursor.execute((Path(__file__).parent / "history.sql").read_text())
        cursor.execute("SELECT bench_write_history(%s, %s, %s)", [cast.agents, cast.service, count])
        cursor.execute("VACUUM ANALYZE")


def write_log(agents: list[str], service: str, count: int, days: tuple[int, int], amount: str = "0") -> None:
    """Add so many entries of these agents to the log, dated evenly between two numbers of days ago.

    Each adds `amount` to its agent's running total; more than 0 only for one agent.
    """
    with transaction.atomic(), connection.cursor() as cursor:
        # Foreign keys are not looked up row by row, and indexes are made anew: both cost more than the rows.
        cursor.execute("SET LOCAL session_replication_role = replica; SET LOCAL maintenance_work_mem = '512MB'")
        cursor.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'ledger_logentry' AND NOT EXISTS"
            " (SELECT FROM pg_constraint WHERE conname = indexname)"
        )
        indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f'DROP INDEX "{name}"')
        cursor.execute((Path(__file__).parent / "log_history.sql").read_text())
        cursor.execute(
            "SELECT bench_write_log(%s, %s, %s, now() - %s * interval '1 day', now() - %s * interval '1 day', %s)",
            [agents, service, count, *days, amount],
        )
        for _, definition in indexes:
            cursor.execute(definition)
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE ledger_logentry")


def _grow_tree(policy: PolicyRevision, first: Agent, name: str, levels: int) -> list[str]:
    """Make a hundred agents with so many others above them; returns these hundred."""
    path = [f"{name}-above-{level}" for level in range(levels)]
    leaves = [f"{name}-{number}" for number in range(_LEAVES)]
    parents = {**dict(zip(path, [None, *path], strict=False)), **dict.fromkeys(leaves, path[-1])}
    above = {one: path[:level] for level, one in enumerate(path)} | dict.fromkeys(leaves, path)
    Agent.objects.bulk_create(_cloned(first, one, above[one]) for one in parents)
    PolicyRevision.objects.bulk_create(
        _cloned_policy(policy, one, MoreLimits(parent=parent) if parent else NO_MORE) for one, parent in parents.items()
    )
    BalanceMovement.objects.bulk_create(_funding(first, one) for one in parents)
    return leaves


def _cloned(agent: Agent, name: str, above: list[str] | None = None) -> Agent:
    return Agent(id=name, asset=agent.asset, balance=agent.balance, created_at=agent.created_at, ancestors=above)


def _funding(agent: Agent, name: str) -> BalanceMovement:
    return BalanceMovement(
        agent_id=name,
        kind=MovementKind.FUNDING,
        amount=agent.balance,
        balance_after=agent.balance,
        author="bench",
        created_at=agent.created_at,
    )


def _all_limits(service: str) -> MoreLimits:
    """Make limits that let everything pass, of each kind."""
    much, many, ever = Decimal(PLENTY), 10**9, timedelta(days=10_000)
    return MoreLimits(
        hourly_limit=much, monthly_limit=much, total_limit=much, payments_per_hour=many, payments_per_day=many,
        payee_max_per_payment=much, payee_daily_limit=much, payee_weekly_limit=much,
        payee_limits={service: PayeeException({"day": much})},
        allowed_hours=parse_hours("daily 00:00-24:00 Europe/Berlin"),
        allowed_from=utc_now() - ever, allowed_until=utc_now() + ever, new_payee_wait_hours=1, new_payee_payments=1,
        new_payee_max_per_payment=much,
    )  # fmt: skip


def _cloned_policy(policy: PolicyRevision, name: str, more: MoreLimits) -> PolicyRevision:
    return PolicyRevision(
        agent_id=name,
        number=1,
        max_per_payment=policy.max_per_payment,
        daily_limit=policy.daily_limit,
        weekly_limit=policy.weekly_limit,
        more_json=write_more(more),
        counts_payments=more.needs_tally,
        created_by="bench",
        created_at=policy.created_at,
    )
