"""The statements of a month, to print and as CSV."""

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from django.contrib.admin.utils import unquote
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404

from backoffice.statements import (
    AgentStatement,
    Month,
    PayeeStatement,
    Subtotal,
    list_months,
    state_agent,
    state_payee,
)
from foundation.console.exports import Columns, stream
from foundation.console.views import show_page, staff_page
from foundation.groups import in_batches_of_all
from foundation.kernel.times import utc_now
from policy.models import Agent
from services.models import Service
from staff.exporting import record_export

# More are read in the CSV.
MOST_SHOWN = 1_000
_MONTH = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])", re.ASCII)
_Line = dict[str, Any]


@staff_page("ledger.view_balancemovement")
def agent_statement(request: HttpRequest, agent_id: str) -> HttpResponseBase:
    """Show what moved an agent's balance in a month."""
    agent = get_object_or_404(Agent, pk=unquote(agent_id))
    statement = state_agent(agent, _read_month(request), utc_now())
    if request.GET.get("format") == "csv":
        return _export(request, f"statement-{agent.pk}", statement.month, _AGENT_COLUMNS, _agent_lines(statement))
    shown = statement.movements[:MOST_SHOWN]
    return _show(request, "console/agent_statement.html", statement, agent.created_at, movements=shown)


@staff_page("payments.view_payment")
def payee_statement(request: HttpRequest, service_id: str) -> HttpResponseBase:
    """Show the payments to a payee that were approved in a month."""
    service = get_object_or_404(Service, pk=unquote(service_id))
    statement = state_payee(service, _read_month(request))
    if request.GET.get("format") == "csv":
        return _export(request, f"statement-{service.pk}", statement.month, _PAYEE_COLUMNS, _payee_lines(statement))
    shown = list(islice(in_batches_of_all(statement.payments, "pk", size=MOST_SHOWN), MOST_SHOWN))
    return _show(request, "console/payee_statement.html", statement, service.created_at, payments=shown)


def _read_month(request: HttpRequest) -> Month:
    """Read the month that is asked for; this one if none is."""
    asked = request.GET.get("month", "") or f"{utc_now():%Y-%m}"
    found = _MONTH.fullmatch(asked)
    if found is None:
        raise BadRequest("A month is written like 2026-11.")
    return Month.of(int(found[1]), int(found[2]))


def _show(
    request: HttpRequest, template: str, statement: AgentStatement | PayeeStatement, since: datetime, **rows: Any
) -> HttpResponse:
    now = utc_now()
    return show_page(
        request,
        template,
        title=f"Statement {statement.month}",
        statement=statement,
        is_over=statement.month.end <= now,
        now=now,
        months=list(list_months(since, now)),
        is_cut=statement.count > MOST_SHOWN,
        most_shown=MOST_SHOWN,
        **rows,
    )


def _export(
    request: HttpRequest, name: str, month: Month, columns: Columns, lines: Iterator[_Line]
) -> HttpResponseBase:
    record_export(request, name, "csv", {"month": str(month)})
    return stream(lines, columns, "csv", name=f"{re.sub(r'[^A-Za-z0-9._-]', '_', name)}-{month}")


def _agent_lines(statement: AgentStatement) -> Iterator[_Line]:
    asset = statement.agent.asset
    yield {"entry": "opening balance", "asset": asset, "at": statement.month.begin, "balance": statement.opening}
    for one in in_batches_of_all(statement.movements, "id"):
        row: Any = one
        yield {
            "entry": row.kind, "asset": asset, "at": row.created_at, "amount": row.amount,
            "balance": row.balance_after, "payment": row.payment_id, "payee": row.payee, "chain": row.chain,
            "author": row.author, "reason": row.reason,
        }  # fmt: skip
    yield from _sum_lines(statement.sums)
    yield {"entry": "closing balance", "asset": asset, "at": statement.month.end, "balance": statement.closing}


def _payee_lines(statement: PayeeStatement) -> Iterator[_Line]:
    for one in in_batches_of_all(statement.payments, "pk"):
        row: Any = one
        yield {
            "entry": row.status, "asset": row.asset, "at": row.decided_at, "amount": row.amount, "payment": row.pk,
            "agent": row.agent_id, "chain": row.chain, "recipient": row.recipient, "tx": row.final_tx,
            "settled": row.settled_at, "failed": row.failed_at, "reason": row.failure_reason,
            "escrow": row.escrow_id,
        }  # fmt: skip
    yield from _sum_lines(statement.sums)


def _sum_lines(sums: list[Subtotal]) -> Iterator[_Line]:
    for one in sums:
        yield {"entry": f"sum: {one.words}", "asset": one.asset, "amount": one.total, "count": one.count}


def _member(name: str) -> Callable[[_Line], Any]:
    return lambda line: line.get(name)


_AGENT_COLUMNS = {
    "entry": _member("entry"), "at": _member("at"), "amount": _member("amount"), "asset": _member("asset"),
    "balanceAfter": _member("balance"), "paymentId": _member("payment"), "service": _member("payee"),
    "chain": _member("chain"), "author": _member("author"), "reason": _member("reason"), "count": _member("count"),
}  # fmt: skip
_PAYEE_COLUMNS = {
    "entry": _member("entry"), "createdAt": _member("at"), "amount": _member("amount"), "asset": _member("asset"),
    "paymentId": _member("payment"), "agentId": _member("agent"), "chain": _member("chain"),
    "recipient": _member("recipient"), "tx": _member("tx"), "settledAt": _member("settled"),
    "failedAt": _member("failed"), "failureReason": _member("reason"), "count": _member("count"),
    "escrowId": _member("escrow"),
}  # fmt: skip
