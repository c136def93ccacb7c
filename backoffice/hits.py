"""What the search box shows of the things that it finds."""

from dataclasses import dataclass

from django.contrib.admin.utils import quote
from django.db.models import Model
from django.urls import reverse

from foundation.console.figures import show_amount
from ledger.judgements import words_of
from ledger.models import LogEntry
from payments.models import Payment

MOST_OF_A_KIND = 10


@dataclass(frozen=True, slots=True)
class Hit:
    """Something that was found, in words, and where its page is."""

    kind: str
    name: str
    words: str
    url: str


def page_of(row: Model) -> str:
    """Name the address of a row's page in the console."""
    return reverse(f"admin:{row._meta.app_label}_{row._meta.model_name}_change", args=[quote(str(row.pk))])


def present_entry(entry: LogEntry, kind: str = "Decision") -> Hit:
    """Present a decision in words."""
    asked = f"{entry.agent_id} asked to pay {entry.service} {entry.amount} {entry.asset}"
    outcome = "approved" if entry.payment_id else f"refused: {words_of(entry)}"
    return Hit(kind, entry.pk, f"{asked}; {outcome}", page_of(entry))


def present_payment(payment: Payment) -> Hit:
    """Present a payment in words."""
    amount = f"{show_amount(payment.amount)} {payment.asset}"
    words = f"{payment.agent_id} pays {payment.service_id} {amount}; {payment.status}"
    return Hit("Payment", payment.pk, words, page_of(payment))
