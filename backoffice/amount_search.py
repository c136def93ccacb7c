"""Find payments, refusals and movements of money by their amount, among the newest of each.

No index has amounts: each payment would have to keep it, and a page of the console is worth less than a payment's time.
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple

from django.db.models import QuerySet

from backoffice.hits import MOST_OF_A_KIND, Hit, page_of, present_entry, present_hold, present_payment, unapproved
from chains.catalogue import alias_of
from foundation.console.figures import show_amount
from foundation.kernel.assets import Asset
from ledger.models import LogEntry, Result
from payments.models import Deposit, Outflow, Payment, Withdrawal

MOST_ROWS = 100_000
MOST_REFUSALS = 20_000  # rows of the log are wide
_AMOUNT = re.compile(r"([0-9]{1,20}|[0-9]{1,3}(?:,[0-9]{3})+)(\.[0-9]{1,18})?(?: ([A-Z]{3,5}))?", re.ASCII)
_MOST_DECIMALS = 18


class Amount(NamedTuple):
    """An amount that somebody looks for; `assets` narrows it down to one, if that was named."""

    value: Decimal
    assets: list[str]

    @property
    def as_written(self) -> list[str]:
        """The ways in which a caller may have written it."""
        text = f"{self.value:f}".rstrip("0").rstrip(".") if self.value % 1 else f"{self.value:.0f}"
        whole, _, fraction = text.partition(".")
        lengths = range(max(len(fraction), 1), _MOST_DECIMALS + 1)
        padded = [f"{whole}.{fraction.ljust(length, '0')}" for length in lengths]
        return padded if fraction else [whole, *padded]


def read_amount(term: str) -> Amount | None:
    """Read an amount as the console shows it, with its asset or without; None: it is something else."""
    read = _AMOUNT.fullmatch(term.strip())
    if read is None or (read[3] and read[3] not in Asset.__members__):
        return None
    assets = [read[3]] if read[3] else list(Asset)
    return Amount(Decimal(read[1].replace(",", "") + (read[2] or "")), assets)


def find_payments_of(term: str) -> Iterator[Hit]:
    """Find the newest payments of an amount."""
    if (amount := read_amount(term)) is not None:
        rows = _newest(Payment.objects.order_by("-id"), MOST_ROWS)
        yield from map(present_payment, rows.filter(amount=amount.value, asset__in=amount.assets)[:MOST_OF_A_KIND])


def find_holds_of(term: str) -> Iterator[Hit]:
    """Find the newest of an amount that wait for a person's approval, or were not approved."""
    if (amount := read_amount(term)) is not None:
        rows = _newest(unapproved().order_by("-id"), MOST_REFUSALS)
        found = rows.filter(amount=amount.value, entry__asset__in=amount.assets)
        yield from map(present_hold, found[:MOST_OF_A_KIND])


def find_refusals_of(term: str) -> Iterator[Hit]:
    """Find the newest refusals of an amount."""
    if (amount := read_amount(term)) is not None:
        rows = _newest(LogEntry.objects.filter(result=Result.BLOCKED).order_by("-id"), MOST_REFUSALS)
        found = rows.filter(amount__in=amount.as_written, asset__in=amount.assets)
        yield from map(present_entry, found[:MOST_OF_A_KIND])


def find_deposits_of(term: str) -> Iterator[Hit]:
    """Find the newest deposits of an amount."""
    for row in _movements(term, Deposit.objects.order_by("-id")):
        words = f"{show_amount(row.amount)} {row.asset} from {row.depositor} on {alias_of(row.chain)}"
        yield Hit("Deposit", row.tx, f"{words}; {row.get_state_display().lower()}", page_of(row))


def find_withdrawals_of(term: str) -> Iterator[Hit]:
    """Find the newest withdrawals of an amount."""
    for row in _movements(term, Withdrawal.objects.order_by("-id")):
        words = f"{show_amount(row.amount)} {row.asset} to {row.recipient} on {alias_of(row.chain)}; {row.state}"
        yield Hit("Withdrawal", row.reference, words, page_of(row))


def find_outflows_of(term: str) -> Iterator[Hit]:
    """Find the newest outflows of an amount."""
    for row in _movements(term, Outflow.objects.order_by("-id")):
        words = f"{show_amount(row.amount)} {row.asset} on {alias_of(row.chain)}; {row.state}"
        yield Hit("Outflow", row.tx, words, page_of(row))


def _movements(term: str, rows: QuerySet) -> Iterable:
    amount = read_amount(term)
    if amount is None:
        return ()
    return _newest(rows, MOST_ROWS).filter(amount=amount.value, asset__in=amount.assets)[:MOST_OF_A_KIND]


def _newest(rows: QuerySet, most: int) -> QuerySet:
    """Select the newest rows, by the index of their ids: in order, the newest first."""
    oldest = rows.values_list("pk", flat=True)[most : most + 1].first()
    return rows if oldest is None else rows.filter(pk__gt=oldest)
