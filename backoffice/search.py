"""One search box: payments, log entries, transactions, idempotency keys, addresses, amounts, ids and parts of ids.

Each kind is found by an index, or in a table that stays small; only kinds that the person may view are looked for.
Metadata is in no index, which every payment would have to keep: see `backoffice.metadata_search`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from django.conf import settings
from django.contrib.admin.utils import quote
from django.db.models import Q
from django.urls import reverse

from backoffice.amount_search import (
    find_deposits_of,
    find_holds_of,
    find_outflows_of,
    find_payments_of,
    find_refusals_of,
    find_withdrawals_of,
)
from backoffice.hits import MOST_OF_A_KIND, Hit, page_of, present_entry, present_hold, present_payment, unapproved
from backoffice.paid_addresses import find_paid_to
from backoffice.terms import Term, begins, cases, hashed, part, select_transactions, shortened
from chains.catalogue import CHAINS, alias_of
from foundation.console.figures import show_amount
from ledger.models import LogEntry
from payments.models import Deposit, Outflow, Payment, Relayer, Withdrawal
from policy.models import Agent, ApiKey
from services.models import Service, WebhookDelivery

# Deposits are read from the newest on, without an index: so many at most.
_MOST_DEPOSITS = 100_000
_CHAINS = [chain.caip2 for chain in CHAINS]


@dataclass(frozen=True, slots=True)
class Kind:
    """What can be found: who may see it, and how it is found by a term."""

    permission: str
    find: Callable[[Term], Iterable[Hit]]


def search(term: str, may: Callable[[str], bool]) -> list[Hit]:
    """Find what a term names; `may` tells whether the person has a permission. The same row is found once."""
    asked = Term(term.strip())
    if not asked:
        return []
    found: dict[str, Hit] = {}
    for kind in KINDS:
        if may(kind.permission):
            for hit in kind.find(asked):
                found.setdefault(hit.url, hit)
    return list(found.values())


def _find_payments(term: Term) -> Iterator[Hit]:
    for payment in Payment.objects.filter(begins("pay", term)).order_by("-id")[:MOST_OF_A_KIND]:
        yield present_payment(payment)


def _find_paid_by_key(term: Term) -> Iterator[Hit]:
    # What a person has approved has another entry, and the id that it had when it was asked for.
    asked = LogEntry.objects.filter(pk__in=term.entries_with_key, payment_id__isnull=False).values("payment_id")
    yield from map(present_payment, Payment.objects.filter(pk__in=asked))


def _find_holds(term: Term) -> Iterator[Hit]:
    """Find what is no payment, or not yet: a person has to approve it, or has not."""
    found = unapproved().filter(begins("pay", term) | Q(entry__in=term.entries_with_key))
    yield from map(present_hold, found.order_by("-id")[:MOST_OF_A_KIND])


def _find_entries(term: Term) -> Iterator[Hit]:
    for entry in LogEntry.objects.filter(begins("log", term)).order_by("-id")[:MOST_OF_A_KIND]:
        yield present_entry(entry)
    for entry in LogEntry.objects.filter(pk__in=term.entries_with_key).order_by("-id"):
        yield present_entry(entry, "Idempotency key")


def _find_paid_by_tx(term: Term) -> Iterator[Hit]:
    payments = Payment.objects.filter(settlements__in=select_transactions(term).values("pk")).distinct()
    yield from map(present_payment, payments[:MOST_OF_A_KIND])


def _find_transactions(term: Term) -> Iterator[Hit]:
    for row in select_transactions(term)[:MOST_OF_A_KIND]:
        yield Hit("Transaction", row.tx, f"{row.state} on {alias_of(row.chain)}", page_of(row))


def _find_agents(term: Term) -> Iterator[Hit]:
    for agent in Agent.objects.filter(part("id", term))[:MOST_OF_A_KIND]:
        words = f"{agent.state}, balance {show_amount(agent.balance)} {agent.asset}"
        yield Hit("Agent", agent.pk, words, page_of(agent))


def _find_keys(term: Term) -> Iterator[Hit]:
    for key in ApiKey.objects.filter(begins("key", term) | part("name", term))[:MOST_OF_A_KIND]:
        words = f"{key.name or 'without a name'}, {'revoked' if key.revoked_at else 'not revoked'}"
        yield Hit("API key", key.pk, words, page_of(key))


def _find_services(term: Term) -> Iterator[Hit]:
    named = part("id", term) | Q(address__in=cases(term)) | (part("name", term))
    if ends := shortened(term):
        named |= Q(address__istartswith=ends[0], address__iendswith=ends[1])
    for service in Service.objects.filter(named)[:MOST_OF_A_KIND]:
        words = (
            f"{service.name}, {service.get_status_display().lower()}, {service.address} on {alias_of(service.chain)}"
        )
        yield Hit("Payee", service.pk, words, page_of(service))


def _find_deposits(term: Term) -> Iterator[Hit]:
    newest = Deposit.objects.order_by("-id").values("id")[:_MOST_DEPOSITS]
    by_tx = Q(chain__in=_CHAINS) & hashed(term, "tx")
    by_depositor = Deposit.objects.filter(pk__in=newest, depositor__in=cases(term))
    for rows in (Deposit.objects.filter(by_tx), by_depositor):
        for row in rows.order_by("-id")[:MOST_OF_A_KIND]:
            amount = f"{show_amount(row.amount)} {row.asset or 'units of an unknown token'}"
            words = f"{amount} from {row.depositor} on {alias_of(row.chain)}; {row.get_state_display().lower()}"
            yield Hit("Deposit", row.tx, words, page_of(row))


def _find_withdrawals(term: Term) -> Iterator[Hit]:
    written = cases(term)
    named = begins("wdr", term, "reference") | Q(landed_tx__in=written) | Q(recipient__in=written)
    for row in Withdrawal.objects.filter(named)[:MOST_OF_A_KIND]:
        words = f"{show_amount(row.amount)} {row.asset} to {row.recipient} on {alias_of(row.chain)}; {row.state}"
        yield Hit("Withdrawal", row.reference, words, page_of(row))


def _find_outflows(term: Term) -> Iterator[Hit]:
    written = cases(term)
    named = Q(chain__in=_CHAINS) & hashed(term, "tx") | Q(recipient__in=written)
    for row in Outflow.objects.filter(named)[:MOST_OF_A_KIND]:
        words = f"{show_amount(row.amount)} {row.asset or ''} on {alias_of(row.chain)}; {row.state}"
        yield Hit("Outflow", row.tx, words, page_of(row))


def _find_relayers(term: Term) -> Iterator[Hit]:
    for row in Relayer.objects.filter(address__in=cases(term)):
        yield Hit("Relayer", row.address, f"relayer {row.number} on {alias_of(row.chain)}", page_of(row))


def _find_escrows(term: Term) -> Iterator[Hit]:
    for caip2, served in settings.CHAINS.items():
        if served.escrow in cases(term):
            url = reverse("admin:payments_chainstate_change", args=[quote(caip2)])
            yield Hit("Escrow", served.escrow, f"the escrow on {served.chain.alias}", url)


def _find_deliveries(term: Term) -> Iterator[Hit]:
    found = WebhookDelivery.objects.filter(begins("evt", term, "event_id")).select_related("event")
    for row in found.defer("event__payload")[:MOST_OF_A_KIND]:
        yield Hit("Webhook", row.pk, f"{row.event.type} for {row.endpoint_id}; {row.state}", page_of(row))


# In the order in which they are shown.
KINDS = (
    Kind("payments.view_payment", _find_payments),
    Kind("payments.view_payment", _find_paid_by_key),
    Kind("payments.view_payment", _find_paid_by_tx),
    Kind("ledger.view_hold", _find_holds),
    Kind("ledger.view_logentry", _find_entries),
    Kind("policy.view_agent", _find_agents),
    Kind("policy.view_apikey", _find_keys),
    Kind("services.view_service", _find_services),
    Kind("payments.view_payment", find_paid_to),
    Kind("payments.view_settlement", _find_transactions),
    Kind("payments.view_deposit", _find_deposits),
    Kind("payments.view_withdrawal", _find_withdrawals),
    Kind("payments.view_outflow", _find_outflows),
    Kind("payments.view_relayer", _find_relayers),
    Kind("payments.view_chainstate", _find_escrows),
    Kind("services.view_webhookdelivery", _find_deliveries),
    Kind("payments.view_payment", find_payments_of),
    Kind("ledger.view_hold", find_holds_of),
    Kind("ledger.view_logentry", find_refusals_of),
    Kind("payments.view_deposit", find_deposits_of),
    Kind("payments.view_withdrawal", find_withdrawals_of),
    Kind("payments.view_outflow", find_outflows_of),
)
