"""Payments that do not get on, and those that failed."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

from django.db.models import Count, Min, Sum

from foundation.console.figures import add_up, numbered
from foundation.findings import Finder, Finding, Kind, Page, Severity
from foundation.kernel.ids import first_id
from foundation.kernel.times import utc_now
from payments.findings.pages import CHAINS, RELAYERS
from payments.lifecycle import PaymentStatus
from payments.models import Payment

UNSETTLED_AFTER = timedelta(minutes=15)
UNSETTLED = Kind(
    "unsettled",
    "These payments are approved and were not confirmed by their chain for longer than usual. Their money is held; "
    "none is paid twice.",
    "Open the oldest one: its steps say what it waits for. Most often a chain is slow or its relayers are empty.",
    "operate/stuck-chain", (CHAINS, RELAYERS),
)  # fmt: skip
FAILED = Kind(
    "failed",
    "The chain refused what was approved. The money of these payments is on the balances again.",
    "Open one: it says why it failed.",
    "operate/failures",
)  # fmt: skip


def find_unsettled_payments() -> Iterator[Finding]:
    """Find the payments that were approved a while ago and are neither settled nor failed."""
    since = utc_now() - UNSETTLED_AFTER
    early = Payment.objects.filter(status=PaymentStatus.APPROVED, id__lt=first_id("pay", since)).exclude(
        approved_at__gt=since
    )
    late = f"unsettled for more than {round(UNSETTLED_AFTER.total_seconds() / 60)} minutes"
    if rows := _sum_up(early, "created_at"):
        what = f"{numbered(_count(rows), 'payment is', 'payments are')} {late}"
        yield _of_payments(UNSETTLED, Severity.WARNING, what, rows, PaymentStatus.APPROVED)


def find_failed_payments() -> Iterator[Finding]:
    """Find the payments that failed today (UTC); their money was given back."""
    today = utc_now().replace(hour=0, minute=0, second=0, microsecond=0)
    failed = Payment.objects.filter(status=PaymentStatus.FAILED, failed_at__gte=today)
    if rows := _sum_up(failed, "failed_at"):
        what = f"{numbered(_count(rows), 'payment', 'payments')} failed today and went back to the balance"
        yield _of_payments(FAILED, Severity.INFO, what, rows, PaymentStatus.FAILED)


def _sum_up(payments: Any, since: str) -> Sequence[Any]:
    """Sum payments up by asset: rows of an asset, a number, an amount, and the first moment."""
    return list(payments.order_by().values_list("asset").annotate(Count("pk"), Sum("amount"), Min(since)))


def _count(rows: Sequence[Any]) -> int:
    return sum(row[1] for row in rows)


def _of_payments(kind: Kind, severity: Severity, what: str, rows: Sequence[Any], status: PaymentStatus) -> Finding:
    says = f"{what}: {add_up({row[0]: row[2] for row in rows})}."
    page = Page("Look at payments", "payments_payment", {"status__exact": status})
    return Finding(kind, severity, says, page, count=_count(rows), since=min(row[3] for row in rows))


FINDERS = (
    Finder(find_unsettled_payments, (UNSETTLED,)),
    Finder(find_failed_payments, (FAILED,)),
)
