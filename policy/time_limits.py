"""What can speak against a payment at some moment, by the optional limits of a policy. Pure.

Source: docs/contract.md, "Rules and their names".
"""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from foundation.kernel.times import format_instant
from policy.facts import Facts
from policy.rule import Explanation, Record, Said, WaitUntil

# Hours of agents one above the other that have no moment in common are tried so often.
_MOST_OPENINGS = 200


def within_dates(facts: Facts) -> Explanation | None:
    """Object to a payment before the allowance begins, or when it has ended."""
    more, at = facts.more, facts.at
    if more.allowed_until is not None and at >= more.allowed_until:
        return Explanation(f"The allowance ended at {format_instant(more.allowed_until)}.")
    if more.allowed_from is not None and at < more.allowed_from:
        begins = more.allowed_from
        return Explanation(f"The allowance begins at {format_instant(begins)}.", (WaitUntil(begins),))
    return None


def within_hours(facts: Facts) -> Explanation | None:
    """Object to a payment outside the hours of the week in which the agent may pay."""
    hours = facts.more.allowed_hours
    if hours is None or hours.allow(facts.at):
        return None
    return Explanation(f"The agent may pay {hours} only.", (WaitUntil(hours.first_open(facts.at)),))


def payee_waited(facts: Facts) -> Explanation | None:
    """Object to a payee that was approved too short a time ago."""
    opens_at = _payee_opens_at(facts)
    if opens_at is None or facts.at >= opens_at:
        return None
    hours = facts.more.new_payee_wait_hours
    wait = "an hour" if hours == 1 else f"{hours} hours"
    return Explanation(
        f"A new payee is paid {wait} after its approval, at {format_instant(opens_at)}.", (WaitUntil(opens_at),)
    )


def first_allowed(facts: Facts, at: datetime) -> datetime | None:
    """Find the first moment from `at` on that the limits of time let pass, of those above too; None: there is none."""
    judging = (facts, *(level.facts for level in facts.levels))
    for _ in range(_MOST_OPENINGS):
        asked = at
        for one in judging:
            if (opens_at := _first_allowed(one, at)) is None:
                return None
            at = opens_at
        if at == asked:
            return at
    return None


def _first_allowed(facts: Facts, at: datetime) -> datetime | None:
    more, opens_at = facts.more, _payee_opens_at(facts)
    at = max(moment for moment in (at, more.allowed_from, opens_at) if moment is not None)
    if more.allowed_hours is not None:
        at = more.allowed_hours.first_open(at)
    return None if more.allowed_until is not None and at >= more.allowed_until else at


def _payee_opens_at(facts: Facts) -> datetime | None:
    hours = facts.more.new_payee_wait_hours
    if hours is None or facts.payee is None or facts.payee.approved_at is None:
        return None
    return facts.payee.approved_at + timedelta(hours=hours)


def _record_texts(**labels: str) -> Record:
    """Make the record of limits that compare no amounts, as the policy has them; `labels` by their names."""
    names = tuple(labels)

    def say(_paid: Decimal, *said: Any) -> Said:
        return Said(
            texts=tuple((label, str(one)) for label, one in zip(labels.values(), said, strict=True) if one is not None)
        )

    return Record(names, lambda facts: tuple(map(facts.more.texts.get, names)), say, frozenset(names))


DATES = _record_texts(allowedFrom="From", allowedUntil="Until")
ALLOWED_HOURS = _record_texts(allowedHours="Hours")
WAITED = _record_texts(newPayeeWaitHours="Hours until a new payee")
