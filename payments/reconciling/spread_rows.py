"""Check what no constraint can where rows are on several servers: each agent is where it belongs, and each id is once.

Where nothing is distributed, the database keeps both, and nothing is found.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from django.db.models import QuerySet

from foundation.groups import are_of_groups, by_group, every_group, in_batches_of_all, within
from ledger.models import LogEntry
from payments.models import Payment
from payments.reconciling.verification import Problem
from policy.models import Agent


def find_misplaced() -> Iterator[Problem]:
    """Find agents that have rows in another group than the one in which they pay."""
    for group in every_group():
        with within(group):
            here = list(Agent.objects.order_by("pk").values_list("pk", flat=True))
        registered = set(by_group(here).get(group, ()))
        yield from (Problem(one, None, f"It is in {group}, too.") for one in here if one not in registered)


def find_repeated() -> Iterator[Problem]:
    """Find entries and payments with the id of another one."""
    for rows in (LogEntry.objects.only("id", "agent_id"), Payment.objects.only("id", "agent_id")):
        yield from _repeated(rows)


def _repeated(rows: QuerySet[LogEntry] | QuerySet[Payment]) -> Iterator[Problem]:
    if are_of_groups(rows):
        each: Iterator[Any] = in_batches_of_all(rows, "id")  # in the order of their ids
        yield from (
            Problem(one.agent_id, None, f"{one.pk} is an id of {other.agent_id}, too.")
            for one, other in pairwise(each)
            if one.pk == other.pk
        )
