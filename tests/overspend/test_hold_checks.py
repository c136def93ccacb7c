"""Whether what is wrong with held payments is noticed: evidence of a clean storm, spoilt in one place each."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from tests.overspend.answers import Told
from tests.overspend.evidence import Account, Entry, Evidence, Kind, Limits, Paid
from tests.overspend.judging import judge
from tests.support.storms import Answer, Shot

NOON = datetime(2026, 5, 14, 12, tzinfo=UTC)
ONE = Decimal(1)
DAY = Limits(Decimal(10), Decimal(2), Decimal(100))


def entry_of(number: int, key: str | None, **changes: object) -> Entry:
    at = NOON + timedelta(seconds=number)
    found = Entry(f"log_{number}", "agent", key, "service", ONE, "USDC", False, at, None)
    return replace(found, **changes)  # type: ignore[arg-type]


def told_of(number: int, key: str, status: int, text: str) -> Told:
    body = {"agentId": "agent", "service": "service", "amount": "1.00", "asset": "USDC", "reason": "A test"}
    return Told(
        Shot("", "alw", key, body), Answer(number, status, text, is_replay=status != 202, sent_at=float(number))
    )


def payment(payment_id: str) -> str:
    return f'{{"id": "{payment_id}", "createdAt": "{NOON.isoformat()}"}}'


def storm() -> Evidence:
    """Two payments are held, which is all that fits; one is approved, the other declined; then a third is held."""
    refused = '{"error": {"code": "approval_declined", "logId": "log_4"}}'
    told = [
        told_of(1, "a", 202, payment("pay_1")), told_of(2, "b", 202, payment("pay_2")),
        told_of(3, "a", 201, payment("pay_1")), told_of(4, "b", 403, refused),
        told_of(5, "c", 202, payment("pay_5")), told_of(6, "c", 201, payment("pay_5")),
    ]  # fmt: skip
    entries = [
        entry_of(1, "a", is_held=True, payment_id="pay_1"),
        entry_of(2, "b", is_held=True, payment_id="pay_2"),
        entry_of(3, None, held_by="log_1", is_approved=True, payment_id="pay_1"),
        entry_of(4, None, held_by="log_2"),
        entry_of(5, "c", is_held=True, payment_id="pay_5"),
        entry_of(6, None, held_by="log_5", is_approved=True, payment_id="pay_5"),
    ]
    payments = [Paid(one.payment_id or "", "agent", one.id, ONE, one.created_at, 1) for one in (entries[2], entries[5])]
    account = Account("agent", "USDC", [DAY], asks_above=Decimal("0.99"))
    return Evidence([account], told, entries, payments, {("service", "USDC"): Decimal(2)})


def found(evidence: Evidence) -> set[Kind]:
    return {kind for kind, sentences in judge(evidence).problems.items() if sentences}


def test_a_clean_storm_is_clean():
    verdict = judge(storm())

    assert verdict.is_clean, verdict.problems
    assert (verdict.requests, verdict.approved, verdict.decided, verdict.found) == (6, 2, 6, 6)


Spoil = Callable[[Sequence[Entry]], Sequence[Entry]]


def without(number: int) -> Spoil:
    return lambda entries: [one for one in entries if one.id != f"log_{number}"]


def changed(number: int, **changes: object) -> Spoil:
    return lambda entries: [
        replace(one, **changes) if one.id == f"log_{number}" else one  # type: ignore[arg-type]
        for one in entries
    ]


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        # The third is held before the second has ended: three of which two fit.
        (lambda entries: [*entries[:3], entries[4], entries[3], entries[5]], Kind.OVERSPENT),
        (changed(3, held_by=None), Kind.OVERSPENT),  # nobody was asked
        (without(1), Kind.DOUBLED),
        (changed(1, is_held=False, payment_id=None), Kind.DOUBLED),
        (changed(3, amount=Decimal(2)), Kind.DOUBLED),
        (changed(3, payment_id="pay_9"), Kind.DOUBLED),
        (changed(4, held_by="log_1"), Kind.DOUBLED),  # and so is ended twice
        (without(4), Kind.LOST),
        (without(6), Kind.LOST),
    ],
)
def test_whatever_is_wrong_with_what_was_held_is_noticed(spoil, kind):
    clean = storm()

    assert kind in found(replace(clean, entries=list(spoil(clean.entries))))


def test_a_held_answer_that_the_log_does_not_have_is_lost():
    clean = storm()
    told = [*clean.told, told_of(7, "b", 202, payment("pay_9"))]

    assert found(replace(clean, told=told)) == {Kind.LOST}


def test_what_is_never_answered_more_than_202_is_noticed():
    clean = storm()

    assert Kind.UNFIT in found(replace(clean, told=[one for one in clean.told if (one.key, one.status) != ("b", 403)]))
