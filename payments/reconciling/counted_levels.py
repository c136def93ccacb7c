"""Compare what agents count of those below them with the log: what each approval says of the agents above its payer."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from decimal import Decimal

from django.db.models import Exists, OuterRef, QuerySet

from foundation.database import in_batches
from ledger.evidence import is_level_judged_by, keeps_limits
from ledger.judgements import read_explanation
from ledger.models import BalanceMovement, ClockRepair, LevelPayment, LogEntry, MovementKind, Result
from ledger.recorded import read_figure, read_number
from payments.models import Payment
from payments.reconciling.level_figures import LevelFigures, Said, read_levels
from payments.reconciling.policies_in_force import find_outdated
from policy.models import Agent, PolicyRevision

_BATCH_SIZE = 500
_MOST_REVISIONS = 2**31 - 1


def find_level_problems(entry: LogEntry, policy: PolicyRevision) -> Iterator[str]:
    """Yield what is wrong with what an approval says of the agents above its payer; `policy`: that of the payer."""
    levels = read_levels(entry)
    if not levels and policy.more.parent is None:
        return
    revisions = [_find_revision(level) for level in levels]
    above = [policy.more.parent, *(one and one.more.parent for one in revisions)]
    if None in revisions or above != [*(level.get("agentId") for level in levels), None]:
        yield "It does not name the agents that are above its own by the policies that it was judged by."
    for level, revision in zip(levels, revisions, strict=True):
        if revision is not None:
            yield from _problems_of_level(level, entry, revision)
    counted = set(LevelPayment.objects.filter(payment_id=entry.payment_id).values_list("level_id", flat=True))
    missing = sorted({str(level.get("agentId")) for level in levels} - counted)
    yield from (f"{entry.payment_id} is not counted at {level}, above the agent." for level in missing)


def _problems_of_level(level: Said, entry: LogEntry, policy: PolicyRevision) -> Iterator[str]:
    if not is_level_judged_by(level, entry, policy):
        yield f"The policy {policy} of {policy.agent_id}, above the agent, is not the one that it was judged by."
    yield from find_outdated(entry, policy)
    if not keeps_limits(level, entry, policy):
        yield f"It was approved above a limit of {policy.agent_id}, above the agent."
    if "heldBy" not in read_explanation(entry) and _needs_person(level, entry, policy):
        yield f"It was approved without a person, whom the policy of {policy.agent_id}, above the agent, has asked."


def _find_revision(level: Said) -> PolicyRevision | None:
    number = read_figure(str(level.get("policyRevision")).removeprefix("polrev_"))
    if not isinstance(number, int) or number > _MOST_REVISIONS:
        return None
    return PolicyRevision.objects.filter(agent=str(level.get("agentId")), number=number).first()


def _needs_person(level: Said, entry: LogEntry, policy: PolicyRevision) -> bool:
    more = policy.more
    compared = ((more.approval_above, entry.amount), (more.approval_above_day, level.get("spentToday")))
    is_above = any(most is not None and (read_number(figure) or 0) > most for most, figure in compared)
    return is_above or (more.approval_for_first is not None and not _is_known_at(policy.agent_id, entry))


def _is_known_at(level: str, entry: LogEntry) -> bool:
    """Tell whether an agent, or one below it, had paid the payee before, whatever has become of that."""
    counted = LevelPayment.objects.filter(level_id=level, payee=entry.service)
    own = LogEntry.objects.filter(agent=level, service=entry.service, result=Result.APPROVED)
    is_later = counted.filter(payment_id=entry.payment_id, payee_number__gt=1).exists()
    return is_later or own.filter(created_at__lte=entry.created_at).exists()


def find_wrong_level(agent: Agent) -> Iterator[str]:
    """Yield a sentence for each payment of those below an agent that it does not count as the log has it."""
    rows = LevelPayment.objects.filter(level_id=agent.pk)
    before: LevelPayment | None = None
    to_payee: defaultdict[str, tuple[int, Decimal]] = defaultdict(lambda: (0, Decimal(0)))
    repaired_at, figures = _find_repairs(agent.pk), LevelFigures(agent.pk)
    batch: list[LevelPayment] = []
    for row in in_batches(rows, "number", "payment_id"):
        yield from _problems_of_totals(before, to_payee[row.payee], row)
        before, to_payee[row.payee] = row, (row.payee_number, row.payee_spent)
        batch.append(row)
        if len(batch) == _BATCH_SIZE:
            yield from _compare(figures, batch, repaired_at)
            batch = []
    yield from _compare(figures, batch, repaired_at)
    if before is not None and agent.ancestors is None:
        yield "It counts payments of others, and is recorded as an agent that was never above another one."


def _problems_of_totals(before: LevelPayment | None, to_payee: tuple[int, Decimal], row: LevelPayment) -> Iterator[str]:
    number, spent = (0, Decimal(0)) if before is None else (before.number, before.spent)
    expected = (number + 1, spent + row.amount, to_payee[0] + 1, to_payee[1] + row.amount)
    if (row.number, row.spent, row.payee_number, row.payee_spent) != expected:
        yield f"The totals of what is paid below the agent are wrong from {row.payment_id} on."
    if before is not None and row.at < before.at:
        yield f"{row.payment_id}, of an agent below, is counted before {before.payment_id}, which came earlier."


def _compare(figures: LevelFigures, rows: Sequence[LevelPayment], repaired_at: Collection[datetime]) -> Iterator[str]:
    """Compare the next payments that an agent counts with their decisions."""
    ids = [row.payment_id for row in rows]
    entries = {payment.pk: payment.entry for payment in Payment.objects.filter(pk__in=ids).select_related("entry")}
    latest = _find_latest(list(entries.values()))
    returned = BalanceMovement.objects.filter(payment_id__in=ids, kind=MovementKind.RETURN)
    given_back = set(returned.values_list("payment_id", flat=True))
    for row in rows:
        entry = entries.get(row.payment_id)
        if entry is None or entry.result != Result.APPROVED or figures.find_said(entry) is None:
            yield f"{row.payment_id} is counted, and no decision of an agent below approves it."
            continue
        if (row.payment_id, row.payee, row.amount) != (entry.payment_id, entry.service, read_number(entry.amount)):
            yield f"{row.payment_id}, of an agent below, is not counted as it was approved."
        is_moved = row.at != entry.created_at
        is_dated = row.carried_until == (entry.created_at if is_moved else None)
        if not is_dated or (is_moved and row.at not in repaired_at) or row.at > latest[entry.pk]:
            yield f"{row.payment_id}, of an agent below, is counted as of another moment than it was approved."
        yield from figures.compare(row, entry)
        if row.is_returned != (row.payment_id in given_back):
            yield f"{row.payment_id}, of an agent below, was given back or not, and counts otherwise."


def _find_latest(entries: Sequence[LogEntry]) -> dict[str, datetime]:
    """Find as of when each payment counts at the latest: what was in the future counts since its payer's repair."""
    repairs = list(ClockRepair.objects.filter(agent__in={entry.agent_id for entry in entries}))
    return {
        entry.pk: min(
            [
                entry.created_at,
                *(
                    one.repaired_at
                    for one in repairs
                    if one.agent_id == entry.agent_id and one.number > (entry.clock_repairs or 0)
                ),
            ]
        )
        for entry in entries
    }


def _find_repairs(level: str) -> set[datetime]:
    """Find when agents were repaired that had paid at a level in the future: all that was counts as of then."""
    rows = LevelPayment.objects.filter(level_id=level)
    repairs = ClockRepair.objects.filter(Exists(rows.filter(at=OuterRef("repaired_at"))))
    return {repair.repaired_at for repair in repairs if rows.filter(payment_id__in=_paid_ahead(repair)).exists()}


def _paid_ahead(repair: ClockRepair) -> "QuerySet[LogEntry, str | None]":
    entries = LogEntry.objects.filter(agent=repair.agent_id, result=Result.APPROVED)
    return entries.filter(created_at__gt=repair.repaired_at).values_list("payment_id", flat=True)
