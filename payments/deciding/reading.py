"""Lock the agents of a batch, and read all facts that its decisions depend on, in one round trip.

The function is `sql/lock_and_read.sql`; `migrate` installs it. All other code uses the ORM; here it would take more
time than all the rest, under the agents' locks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from operator import itemgetter
from typing import Any

from django.db import OperationalError
from psycopg.errors import DeadlockDetected, LockNotAvailable

from foundation.kernel.errors import AgentNotFound, PolicySignerUnavailable
from foundation.prepared_statements import fetch_prepared, fetch_prepared_rows
from ledger.models import LogEntry
from ledger.receipts import request_digest
from payments.deciding.known import COLUMNS, Known, make_known
from payments.deciding.requests import PaymentRequest

# What somebody else holds is waited for as long as this.
LONGEST_WAIT_S = 5.0
_FIRST = (
    "place", "level", "(api_key).id", "(api_key).scopes", "(api_key).agent_id", "(api_key).address_ranges",
    "busy_root", "earlier_entry_id",
)  # fmt: skip
_SELECTED = ", ".join([*_FIRST, *COLUMNS])
_place_and_level = itemgetter(0, 1)
_LOCK_AND_READ = f"SELECT {_SELECTED} FROM payments_lock_and_read_11(%s, %s, %s, %s, %s::bytea[], %s, %s, %s, %s, %s)"  # noqa: S608 - our own names
_GAS_SINCE = "SELECT payments_gas_since(%s, %s, %s)"


@dataclass(frozen=True, slots=True)
class EarlierDecision:
    """An earlier decision for the same idempotency key: its log entry, if it is of the same batch, and its id."""

    entry_id: str
    entry: LogEntry | None = None


@dataclass(frozen=True, slots=True)
class Undecided:
    """A request was left out of its batch: somebody else holds what it needs, or only another batch can decide it.

    `root`: the agent to wait for. It is the root of the tree that the request's agent is in, or that agent.
    """

    root: str


class AnotherCaller(Exception):
    """The key of a remembered caller is not in force any more, or permits something else: nothing was decided."""


class HeldTooLong(Exception):
    """Somebody else held an agent, or the right to pay a service, for longer than it is waited for.

    Or PostgreSQL ended the wait: two may lock a tree in two orders while its agents are moved.
    """


# An exception is the answer of its request.
Found = Known | EarlierDecision | Undecided | Exception


def lock_and_read(
    requests: Sequence[PaymentRequest], *, now: datetime | None, most_refusals: int, wait_s: float | None
) -> list[Found]:
    """Lock the agents of some requests until the transaction ends, and read the facts of each request.

    `now` replaces the database's clock; `most_refusals` is the highest number of an agent's refusals in a minute.
    Waits for what somebody else holds for `wait_s` seconds, or, if that is None, leaves those out as `Undecided`.

    Raises:
        HeldTooLong: nothing was evaluated.
    """
    wait_ms = None if wait_s is None else max(1, round(wait_s * 1000))
    try:
        rows = fetch_prepared_rows(_LOCK_AND_READ, [*_asked(requests), wait_ms, now, most_refusals, True])
    except OperationalError as error:
        if is_held_by_another(error):
            raise HeldTooLong from error
        raise
    return _read_rows(requests, rows)


def is_held_by_another(error: OperationalError) -> bool:
    """Tell whether an error says that somebody else held what was to be locked."""
    return isinstance(error.__cause__, LockNotAvailable | DeadlockDetected)


def read_facts(request: PaymentRequest, *, now: datetime | None) -> Known:
    """Read the facts of a request that is only evaluated: locks nothing, and waits for nobody. `now` as above.

    Raises:
        AgentNotFound: there is no such agent.
        PolicySignerUnavailable: it was moved to another parent meanwhile.
    """
    (found,) = _read_rows([request], fetch_prepared_rows(_LOCK_AND_READ, [*_asked([request]), None, now, 0, False]))
    if isinstance(found, Known):
        return found
    if isinstance(found, Undecided):
        raise PolicySignerUnavailable("The agent was moved meanwhile. Try again.")
    raise found if isinstance(found, Exception) else TypeError(f"{found} is no answer to an evaluation.")


def _asked(requests: Sequence[PaymentRequest]) -> list[list[Any]]:
    return [
        [request.agent_id for request in requests],
        [request.idempotency_key for request in requests],
        [request.service for request in requests],
        [request_digest(request.idempotency_key, request.fingerprint) for request in requests],
        [request.caller.unverified if request.caller else None for request in requests],
        [request.held.payment_id if request.held else None for request in requests],
    ]


def _read_rows(requests: Sequence[PaymentRequest], rows: Sequence[Sequence[Any]]) -> list[Found]:
    """Read what is found for each request; rows of the same place behind the first are of the agents above."""
    found: list[Found] = []
    for place, level, *row in sorted(rows, key=_place_and_level):
        if level == 0:
            found.append(_read_row(requests[place - 1], row))
        elif isinstance(known := found[-1], Known):
            found[-1] = replace(known, levels=(*known.levels, make_known(row[len(_FIRST) - 2 :])))
    return found


def _read_row(request: PaymentRequest, row: Sequence[Any]) -> Found:
    key_id, scopes, agent_id, ranges, busy_root, earlier_entry_id, *columns = row
    caller = request.caller
    if caller is not None and (key_id, frozenset(scopes or ()), agent_id, tuple(ranges or ())) != caller.key:
        return AnotherCaller()
    if busy_root is not None:
        return Undecided(busy_root)
    if earlier_entry_id is not None:
        return EarlierDecision(earlier_entry_id)
    # The first fact is never null for an agent that exists.
    return AgentNotFound() if columns[0] is None else make_known(columns)


def read_gas(agent_id: str, chain: str, since: datetime) -> Decimal:
    """Sum the gas of an agent's transactions on a chain since `since`, in the chain's coin.

    Costs count for 24 hours, with the whole hour of `since`. A transaction without a known cost counts with its highest
    possible cost.
    """
    row = fetch_prepared(_GAS_SINCE, (agent_id, chain, since))
    return Decimal(0) if row is None else row[0]
