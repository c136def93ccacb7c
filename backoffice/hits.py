"""What the search box shows of the things that it finds."""

from dataclasses import dataclass

from django.contrib.admin.utils import quote
from django.db.models import Model, QuerySet
from django.urls import reverse

from foundation.console.figures import show_amount
from ledger.judgements import words_of
from ledger.models import Hold, LogEntry, Result
from payments.models import Payment

MOST_OF_A_KIND = 10
_OUTCOMES = {Result.APPROVED: "approved", Result.BLOCKED: "refused", Result.HELD: "held for approval"}


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that was found, in words, and where its page is."""

    kind: str
    name: str
    words: str
    url: str


def unapproved() -> QuerySet[Hold]:
    """Select what waits for a person's approval, or was not approved: it is no payment."""
    return Hold.objects.exclude(final_entry__result=Result.APPROVED).select_related("entry")


def page_of(row: Model) -> str:
    """Name the address of a row's page in the console."""
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[quote(str(row.pk))])


def present_entry(entry: LogEntry, kind: str = "Decision") -> Hit:
    """Present a decision in words."""
    asked = f"{entry.agent_id} asked to pay {entry.service} {entry.amount} {entry.asset}"
    outcome = _OUTCOMES[Result(entry.result)]
    outcome = outcome if entry.result == Result.APPROVED else f"{outcome}: {words_of(entry)}"
    return Hit(kind, entry.pk, f"{asked}; {outcome}", page_of(entry))


def present_payment(payment: Payment) -> Hit:
    """Present a payment in words."""
    amount = f"{show_amount(payment.amount)} {payment.asset}"
    words = f"{payment.agent_id} pays {payment.service_id} {amount}; {payment.status}"
    return Hit("Payment", payment.pk, words, page_of(payment))


def present_hold(hold: Hold) -> Hit:
    """Present a payment that nobody has approved, or not yet, in words. Its `entry` was read with it."""
    asked = f"{hold.agent_id} asked to pay {hold.service} {show_amount(hold.amount)} {hold.entry.asset}"
    fate = "waits for approval" if hold.ended_at is None else "was not approved"
    return Hit("Payment to approve", hold.pk, f"{asked}; {fate}", page_of(hold))
