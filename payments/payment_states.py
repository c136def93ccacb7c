"""Read payments as they stand, with what was asked for and their transactions: one of them, or a page."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any

from foundation.database import fetch_briefly
from foundation.groups import find_in_groups, read_of
from foundation.kernel.ids import EPOCH, first_id, time_of
from payments.lifecycle import SettlementState

_PAYMENT_ID = re.compile(r"pay_[0-9a-z]{26}", re.ASCII)


@dataclass(frozen=True, slots=True)
class PayingTransaction:
    """One transaction that was made to pay a payment."""

    tx: str
    state: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PaymentState:
    """A payment as it stands, with what was asked for and its transactions, newest first.

    One that its payee takes (x402) has no transaction until it was taken. `spent_today` is the agent's spend within the
    24 hours up to this payment, as its answer said. `escrow_id`: what its chain knows it by.
    """

    transactions: list[PayingTransaction]
    id: str
    status: str
    amount: str
    asset: str
    service_id: str
    policy_revision: int
    spent_today: str
    created_at: datetime
    agent_id: str
    recipient: str
    reason: str
    metadata_json: str | None
    entry_id: str
    settled_at: datetime | None
    failed_at: datetime | None
    failure_reason: str
    escrow_id: str

    @property
    def final_tx(self) -> str | None:
        """The transaction that settled it."""
        return next((one.tx for one in self.transactions if one.state == SettlementState.FINAL), None)


@dataclass(frozen=True, slots=True)
class PaymentFilters:
    """Which payments are looked for; what is None does not matter. An idempotency key belongs to an agent."""

    agent_id: str | None = None
    service_id: str | None = None
    status: str | None = None
    amount: Decimal | None = None
    since: datetime | None = None
    idempotency_key: str | None = None


_STATES = "SELECT * FROM payments_states_2"  # a row for each payment at least
_OF_PAYMENT = len(fields(PaymentState)) - 1


def is_payment_id(text: str) -> bool:
    """Tell whether a text can be the id of a payment."""
    return _PAYMENT_ID.fullmatch(text) is not None


def find_payment(payment_id: str) -> PaymentState | None:
    """Read a payment with its entry and its transactions."""
    if not is_payment_id(payment_id):
        return None
    rows = find_in_groups(lambda: fetch_briefly(f"{_STATES}(%s::text[])", [[payment_id]]) or None)
    return next(_group(rows or []), None)


def read_payment_page(filters: PaymentFilters, *, before_id: str | None, size: int) -> tuple[list[PaymentState], bool]:
    """Read up to `size` payments, newest first, older than the payment `before_id`; tell whether there are more."""
    ids, parameters = payment_page(filters, before_id=before_id, size=size + 1)
    page = list(_group(read_of(filters.agent_id, lambda: fetch_briefly(f"{_STATES}(ARRAY({ids}))", parameters))))
    page.sort(key=attrgetter("id"), reverse=True)
    return page[:size], len(page) > size


def payment_page(filters: PaymentFilters, *, before_id: str | None, size: int) -> tuple[str, list[Any]]:
    """Write the statement that finds the ids of a page. Payments sort by id, which is their order in time.

    Each filter has an index in that order, but `settled`, which most payments are, and an amount, which is looked for
    among those of an agent to a service; of several filters the most selective one's is read. Those of agent and
    service have the time as well: with the id alone the planner may read all payments backwards instead, as if those of
    one agent were spread evenly.
    """
    conditions: dict[str, list[Any]] = {
        "agent_id = %s": [filters.agent_id],
        "service_id = %s": [filters.service_id],
        "amount = %s": [filters.amount],
    }
    has_time = any(values != [None] for values in conditions.values())
    conditions |= {"status = %s": [filters.status], "id < %s": [before_id]}
    if before_id is not None and has_time:
        conditions["created_at <= %s"] = [time_of(before_id)]
    if filters.since is not None:
        conditions["id >= %s AND created_at >= %s"] = [first_id("pay", max(filters.since, EPOCH)), filters.since]
    if filters.idempotency_key is not None:
        # By the payment's id, not by its entry: one that was held has its key in the decision to hold it.
        asked = "SELECT payment_id FROM ledger_logentry WHERE agent_id = %s AND idempotency_key = %s"
        conditions[f"id = ({asked})"] = [filters.agent_id, filters.idempotency_key]
    given = {condition: values for condition, values in conditions.items() if values != [None]}
    where = " AND ".join(given) or "true"
    order = "created_at DESC, id DESC" if has_time else "id DESC"
    statement = f"SELECT id FROM payments_payment WHERE {where} ORDER BY {order} LIMIT %s"  # noqa: S608 - our own names
    return statement, [*(value for values in given.values() for value in values), size]


def _group(rows: list[Any]) -> Iterator[PaymentState]:
    """Make one state of the rows of each payment, which follow each other."""
    for _, group in groupby(rows, itemgetter(0)):
        of_payment = list(group)
        transactions = [PayingTransaction(*row[_OF_PAYMENT:]) for row in of_payment if row[_OF_PAYMENT] is not None]
        yield PaymentState(transactions, *of_payment[0][:_OF_PAYMENT])
