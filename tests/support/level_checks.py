"""What must always be true of payments within budgets: the rows of each level, against what the log has signed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from decimal import Decimal

from ledger.models import LevelPayment, LogEntry, Result
from payments.lifecycle import PaymentStatus
from payments.models import Payment


def check_levels(level_ids: Iterable[str]) -> None:
    """Check what some agents have counted of those below them: as the log says, each once, with its running totals."""
    for level_id in level_ids:
        assert list(find_wrong_levels(level_id)) == [], level_id


def find_wrong_levels(level_id: str) -> Iterator[str]:
    """Yield a sentence for everything that an agent has counted otherwise than the log says."""
    entries = LogEntry.objects.filter(result=Result.APPROVED, explanation_json__contains=f'"{level_id}"')
    logged = {
        str(one.payment_id): (one.service, Decimal(one.amount), one.created_at)
        for one in entries
        if level_id in [level["agentId"] for level in one.explanation.get("levels", ())]
    }
    rows = list(LevelPayment.objects.filter(level=level_id).order_by("number"))
    counted = {row.payment_id: (row.payee, row.amount, row.at) for row in rows}
    if counted != logged:
        differing = [one for one in counted | logged if counted.get(one) != logged.get(one)]
        yield f"{level_id} counts {len(rows)} payments, and the log has {len(logged)}: {differing[:3]}"
    failed = set(Payment.objects.filter(pk__in=counted, status=PaymentStatus.FAILED).values_list("pk", flat=True))
    yield from _find_wrong_totals(rows, failed)


def _find_wrong_totals(rows: Iterable[LevelPayment], failed: set[str]) -> Iterator[str]:
    spent, before = Decimal(0), None
    of_payee: defaultdict[str, list[Decimal]] = defaultdict(list)
    for number, row in enumerate(rows, start=1):
        spent += row.amount
        of_payee[row.payee].append(row.amount)
        to_payee = of_payee[row.payee]
        if (row.number, row.spent, row.payee_number, row.payee_spent) != (number, spent, len(to_payee), sum(to_payee)):
            yield f"{row} is the payment {number} with {spent}, and to its payee {len(to_payee)} with {sum(to_payee)}."
        if before is not None and row.at < before:
            yield f"{row} is of {row.at}, before the one in front of it."
        if row.is_returned != (row.payment_id in failed):
            yield f"{row} is {'' if row.is_returned else 'not '}returned."
        before = row.at
