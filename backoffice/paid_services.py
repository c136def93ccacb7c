"""What was paid to services so far: the daily totals, and the payments since."""

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal

from django.db.models import BigIntegerField, Case, Count, F, Sum, When

from backoffice.models import DailyTotal, RollUp, TotalOf
from payments.lifecycle import PaymentStatus
from payments.models import Payment
from payments.queries import approved_within
from policy.fields import AmountField
from services.paid import Paid

_COLUMNS = ("service", "asset", "payments", "paid")
_COUNT = Case(When(result=TotalOf.FAILED, then=-F("count")), default=F("count"), output_field=BigIntegerField())
_AMOUNT = Case(When(result=TotalOf.FAILED, then=-F("amount")), default=F("amount"), output_field=AmountField())


def find_paid(service_ids: Sequence[str]) -> dict[str, list[Paid]]:
    """Find the number and sum of the payments to services, by the service's id, for each asset; not what failed.

    What failed in the last seconds may be counted still.
    """
    state = RollUp.objects.first()
    totals = DailyTotal.objects.filter(service__in=service_ids, result__in=(TotalOf.APPROVED, TotalOf.FAILED))
    newer = approved_within(Payment.objects.all(), state.entries_until if state else None, None)
    since = newer.filter(service__in=service_ids).exclude(status=PaymentStatus.FAILED)
    summed = totals.values("service", "asset").annotate(payments=Sum(_COUNT), paid=Sum(_AMOUNT))
    counted = since.order_by().values("service", "asset").annotate(payments=Count("pk"), paid=Sum("amount"))
    found: dict[tuple[str, str], tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    for service_id, asset, count, paid in (*summed.values_list(*_COLUMNS), *counted.values_list(*_COLUMNS)):
        before = found[service_id, asset]
        found[service_id, asset] = (before[0] + count, before[1] + paid)
    of_services = defaultdict(list)
    for (service_id, asset), (count, paid) in sorted(found.items()):
        of_services[service_id].append(Paid(asset, count, paid))
    return of_services
