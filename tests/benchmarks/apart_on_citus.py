"""Agents of all groups, and the servers that have them, for the measurement on Citus."""

from dataclasses import dataclass
from datetime import timedelta
from io import StringIO

import psycopg
from django.conf import settings
from django.core.management import call_command
from django.db import connections

from foundation import groups
from foundation.database import fetch_rows
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, MovementKind
from payments.tasks import observe_chain
from policy.models import Agent, PolicyRevision
from services.models import Service
from services.served_chains import served_chains
from tests.benchmarks.processor import parent_of
from tests.benchmarks.seed import PLENTY
from tests.support.factories import make_agent, make_api_key, make_service


@dataclass(frozen=True)
class Cast:
    """Agents that pay, evenly of all groups, the service they pay and the key they pay with."""

    agents: list[str]
    service: str
    key: str

    @classmethod
    def make(cls, count: int, group_count: int | None) -> "Cast":
        """Make them; `group_count`: of so many groups on a cluster, None: on one plain server."""
        if group_count is not None:
            call_command("distribute", groups=group_count, stdout=StringIO(), stderr=StringIO())
            connections.close_all()
        for chain in served_chains():
            observe_chain(chain)
        service = make_service()
        Service.objects.filter(pk=service.pk).update(decided_at=utc_now() - timedelta(days=2))
        every = groups.every_group()
        names = [f"bench-{number}" for number in range(count)]
        first = make_agent(max_per_payment=PLENTY, daily_limit=PLENTY, weekly_limit=PLENTY, balance=PLENTY)
        with groups.within_group_of(first.pk):
            policy = PolicyRevision.objects.get(agent=first)
        for place, group in enumerate(every):
            with groups.within(group):
                _clone(first, policy, names[place :: len(every)])
        return cls(names, service.pk, make_api_key())

    def analyse(self) -> None:
        """Let all servers know how large their tables are by now."""
        for host, port in addresses():
            with psycopg.connect(_url(host, port), autocommit=True) as connection:
                connection.execute("VACUUM ANALYZE")


def _clone(first: Agent, policy: PolicyRevision, names: list[str]) -> None:
    at = first.created_at
    Agent.objects.bulk_create(Agent(id=name, asset=first.asset, balance=first.balance, created_at=at) for name in names)
    PolicyRevision.objects.bulk_create(
        PolicyRevision(
            agent_id=name, number=1, max_per_payment=policy.max_per_payment, daily_limit=policy.daily_limit,
            weekly_limit=policy.weekly_limit, more_json=policy.more_json, created_by="bench", created_at=at,
        )
        for name in names
    )  # fmt: skip
    BalanceMovement.objects.bulk_create(
        BalanceMovement(
            agent_id=name, kind=MovementKind.FUNDING, amount=first.balance, balance_after=first.balance,
            author="bench", created_at=at,
        )
        for name in names
    )  # fmt: skip
    for name in names:
        groups.add_agent(name)


def addresses() -> list[tuple[str, int]]:
    """Name the servers that decide: the workers, or the one that there is."""
    if groups.every_group() == (groups.WHOLE,):
        database = settings.DATABASES["default"]
        return [(database["HOST"], int(database["PORT"]))]
    found = fetch_rows("SELECT DISTINCT host, port FROM distributed_place ORDER BY host, port", {})
    return [(str(host), int(port)) for host, port in found]


def postmasters() -> list[int]:
    """Name the first process of each server."""
    found = []
    for host, port in addresses():
        with psycopg.connect(_url(host, port)) as connection:
            found.append(parent_of(connection.info.backend_pid))
    return found


def _url(host: str, port: int) -> str:
    return f"postgres://postgres@{host}:{port}/{settings.DATABASES['default']['NAME']}"
