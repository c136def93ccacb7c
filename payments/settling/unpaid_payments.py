"""Find the payments that no open transaction pays, on a chain whose escrow pays each id once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, Max, OuterRef, Q, QuerySet, Subquery

from chains.port import Finality
from foundation.kernel.times import utc_now
from payments.lifecycle import LIVE_STATES, PaymentStatus, SettlementState
from payments.models import Leg, Payment
from payments.settling.renewal import WORTH_RENEWING, is_worth_renewing


@dataclass(frozen=True, slots=True)
class UnpaidPayment:
    """A payment that no open transaction pays. `deadline` is the latest that was ever signed for it.

    `is_abandoned`: one of its transactions reverted, lost its nonce, or was to void it; it is not signed again.
    `is_skipped`: one of them, which is final, has paid others without it. `is_void_tried`: a void is in flight,
    succeeded, or was refused by the escrow; then no other one is tried. A void whose nonce was used by another
    transaction never reached the escrow.
    """

    payment: Payment
    deadline: datetime
    is_abandoned: bool
    is_skipped: bool
    is_void_tried: bool

    def may_be_signed(self, finality: Finality) -> bool:
        """Tell whether it may be signed again, once it is proven to be unpaid."""
        is_due = self.is_skipped or finality.time > self.deadline
        return is_due and not self.is_abandoned and is_worth_renewing(self.payment)


def is_to_be_resolved(finality: Finality) -> Q:
    """Select those of which something can be made by now."""
    is_to_be_given_back = Q(deadline__lt=finality.time_by_all)
    since = utc_now() - WORTH_RENEWING
    is_young = Q(Q(created_at__gt=since) | Q(approved_at__gt=since), is_abandoned=False)
    is_to_be_signed = is_young & (Q(deadline__lt=finality.time) | Q(is_skipped=True))
    return is_to_be_given_back | is_to_be_signed | Q(is_abandoned=True, is_void_tried=False)


def find_unpaid(chain: str) -> QuerySet[Any]:
    """Find the payments without an open transaction, oldest first, annotated with the fields of `UnpaidPayment`."""
    legs = Leg.objects.filter(payment=OuterRef("pk"))
    # Those that their payees take never have one: `payments.settling.expired_authorizations`.
    approved = Payment.objects.filter(chain=chain, status=PaymentStatus.APPROVED, authorized_until=None)
    # Each looked up by itself: joined, the planner may read all that was ever settled.
    deadlines = legs.filter(is_void=False).order_by().values("payment").annotate(latest=Max("settlement__valid_until"))
    has_reached_escrow = Q(settlement__state__in=(*LIVE_STATES, SettlementState.FAILED))
    found = approved.filter(~Exists(legs.filter(is_void=False, is_live=True))).annotate(
        deadline=Subquery(deadlines.values("latest")),
        is_abandoned=Exists(legs.filter(Q(is_void=True) | Q(settlement__state=SettlementState.FAILED, skipped=None))),
        is_skipped=Exists(legs.filter(skipped__isnull=False, is_void=False, settlement__state=SettlementState.FINAL)),
        is_void_tried=Exists(legs.filter(has_reached_escrow, is_void=True)),
    )
    return found.order_by("pk")


def read_unpaid(found: Any) -> UnpaidPayment:
    """Read a row of `find_unpaid`."""
    return UnpaidPayment(found, found.deadline, found.is_abandoned, found.is_skipped, found.is_void_tried)


def lock_unpaid(payments: Sequence[Payment]) -> list[UnpaidPayment]:
    """Lock payments, and read again those that have not ended and that no open transaction pays."""
    ids = [payment.pk for payment in payments]
    list(Payment.objects.select_for_update(no_key=True).filter(pk__in=ids).order_by("pk"))
    return [read_unpaid(one) for one in find_unpaid(payments[0].chain).filter(pk__in=ids)]
