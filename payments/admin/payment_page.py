"""What the page of one payment shows: the decision, each transaction, the webhooks, the money that came back."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Count, OuterRef, Prefetch, Q, Subquery
from django.http import HttpRequest

from chains.catalogue import alias_of, find_chain
from foundation.kernel.ids import first_id
from ledger.decision_page import show_decision
from ledger.models import BalanceMovement
from payments.lifecycle import PaymentStatus, SettlementState
from payments.models import Installation, Leg, Payment, Settlement, Transition
from payments.reconciling.verification import find_payment_problems
from services.models import DeliveryState, WebhookDelivery

_EVENTS = {
    "payment.approved": "The payment was approved",
    "payment.settled": "The payment was settled",
    "payment.failed": "The payment failed",
}
STATUS_WORDS = {
    PaymentStatus.APPROVED: "Approved, on its way",
    PaymentStatus.SETTLED: "Settled: the payee has the money",
    PaymentStatus.FAILED: "Failed: the money was given back",
}
STATE_WORDS = {
    SettlementState.SIGNED: "signed, not sent yet",
    SettlementState.BROADCAST: "sent to the chain",
    SettlementState.INCLUDED: "in a block",
    SettlementState.FINAL: "in a final block",
    SettlementState.REPLACED: "replaced by another transaction",
    SettlementState.EXPIRED: "expired without being included",
    SettlementState.FAILED: "failed for good",
}
_DELIVERY_WORDS = {
    DeliveryState.WAITING: "waiting for the next attempt",
    DeliveryState.DELIVERED: "delivered",
    DeliveryState.FAILED: "given up after the last attempt",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A change of a transaction's state, in words."""

    at: datetime
    state: str
    words: str
    reason: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction of a payment, with its steps and its page in the explorer ("" if the chain has none).

    `others`: how many other payments it carries. `skipped`: why it went on without this one; "" if it did not.
    """

    row: Settlement
    purpose: str
    others: int
    skipped: str
    words: str
    explorer: str
    valid_until: str
    steps: list[Step]


@dataclass(frozen=True, slots=True)
class Webhook:
    """An event of a payment and how far its delivery is."""

    title: str
    delivery: WebhookDelivery
    words: str


def show_payment(request: HttpRequest, payment: Payment) -> dict[str, Any]:
    """Give the template all that is known of a payment. `payment.entry` was read with it."""
    user: Any = request.user
    decision = show_decision(payment.entry)
    salt = bytes(Installation.objects.get().salt)
    decision["problems"] += find_payment_problems(payment.entry, payment, salt)
    movements = BalanceMovement.objects.filter(payment_id=payment.pk).order_by("pk")
    sees_webhooks = user.has_perm("services.view_webhookdelivery")
    return {
        **decision,
        "payment": payment,
        "status_words": STATUS_WORDS[PaymentStatus(payment.status)],
        "chain": alias_of(payment.chain),
        "transactions": list(read_transactions(payment)),
        "sees_webhooks": sees_webhooks,
        "webhooks": list(read_webhooks(payment)) if sees_webhooks else [],
        "movements": list(movements) if user.has_perm("ledger.view_balancemovement") else [],
    }


def read_transactions(payment: Payment) -> Iterator[Transaction]:
    """Read the transactions of a payment, the oldest first, each with its steps."""
    steps = Prefetch("settlement__transitions", queryset=Transition.objects.order_by("id"))
    legs = payment.legs.select_related("settlement__relayer").defer("settlement__raw").prefetch_related(steps)
    carried = Leg.objects.filter(settlement=OuterRef("settlement")).order_by().values("settlement")
    found = legs.annotate(carried=Subquery(carried.annotate(n=Count("payment")).values("n")))
    for leg in found.order_by("settlement__created_at", "settlement"):
        row = leg.settlement
        known = find_chain(row.chain)
        yield Transaction(
            row=row,
            purpose="Makes the payment impossible" if leg.is_void else "Pays",
            others=leg.carried - 1,
            skipped=leg.skipped or "",
            words=STATE_WORDS[SettlementState(row.state)],
            explorer=known.link_to(row.tx) if known else "",
            valid_until=tell_validity(row),
            steps=list(_read_steps(row)),
        )


def _read_steps(row: Settlement) -> Iterator[Step]:
    """Read how a transaction came to its state. Of one whose changes are archived, the last is known from itself."""
    yield Step(row.created_at, SettlementState.SIGNED, STATE_WORDS[SettlementState.SIGNED], "")
    changes = [(one.created_at, one.new, one.reason) for one in row.transitions.all()]
    if not changes and row.state != SettlementState.SIGNED:
        changes = [(row.changed_at, row.state, f"{row.reason} The changes before are archived.".strip())]
    for at, state, reason in changes:
        yield Step(at, state, STATE_WORDS[SettlementState(state)], reason)


def tell_validity(row: Settlement) -> str:
    """Tell when a transaction expires: at a moment of the chain's own time, or at a height."""
    if row.valid_until_height is not None:
        return f"height {row.valid_until_height}"
    return f"{row.valid_until:%Y-%m-%d %H:%M:%S} UTC" if row.valid_until else "—"


def read_webhooks(payment: Payment) -> Iterator[Webhook]:
    """Find the events of a payment: their ids tell the moments at which its state changed, so an index finds them."""
    moments = [at for at in (payment.decided_at, payment.settled_at, payment.failed_at) if at is not None]
    made_then = reduce(or_, (_made_at("event_id", "evt", at) for at in moments))
    found = WebhookDelivery.objects.filter(made_then, endpoint_id=payment.service_id).select_related("event")
    for delivery in found.filter(event__payload__contains=f'"{payment.pk}"').order_by("event_id"):
        title = _EVENTS.get(delivery.event.type, delivery.event.type)
        yield Webhook(title, delivery, _DELIVERY_WORDS[DeliveryState(delivery.state)])


def _made_at(field: str, prefix: str, at: datetime) -> Q:
    """Select the ids that were made within a millisecond."""
    return Q(
        **{f"{field}__gte": first_id(prefix, at), f"{field}__lt": first_id(prefix, at + timedelta(milliseconds=1))}
    )
