"""What must be true of payments that a person has to approve. Each check yields what is not, with a sentence. Pure."""

from collections.abc import Iterator, Sequence
from decimal import Decimal

from tests.overspend.evidence import NOTHING, Account, Entry, Evidence, Kind, Problem


def what_is_held_fits_beside_what_is_spent(evidence: Evidence) -> Iterator[Problem]:
    """Add up, at each decision, what is approved so far and what is held then: all within a day, as scenarios are."""
    for account in evidence.accounts:
        spent, held = NOTHING, dict[str, Decimal]()
        for entry in _entries_of(account, evidence):
            held.pop(entry.held_by or "", None)
            if entry.is_held:
                held[entry.id] = entry.amount
            if entry.is_approved:
                spent += entry.amount
            total, allowed = spent + sum(held.values(), NOTHING), _allowed(account, entry)
            if (entry.is_held or entry.is_approved) and held and total > allowed:
                yield Kind.OVERSPENT, f"{entry.id}: {total} were spent or held of {allowed}."


def a_person_has_approved_what_is_above_the_threshold(evidence: Evidence) -> Iterator[Problem]:
    for account in evidence.accounts:
        for entry in _entries_of(account, evidence):
            is_asked = account.asks_above is not None and entry.amount > account.asks_above
            if is_asked and entry.is_approved and entry.held_by is None:
                yield Kind.OVERSPENT, f"{entry.id} approves {entry.amount}, and was not held."


def a_hold_ends_once(evidence: Evidence) -> Iterator[Problem]:
    ended = set[str]()
    for end in evidence.entries:
        if end.held_by is None:
            continue
        begun = evidence.by_id.get(end.held_by)
        if begun is None or not begun.is_held or _asked_for(begun) != _asked_for(end):
            yield Kind.DOUBLED, f"{end.id} ends {end.held_by}, which has not held it."
        elif end.is_approved and end.payment_id != begun.payment_id:
            yield Kind.DOUBLED, f"{end.id} pays {end.payment_id}, and {begun.payment_id} was held."
        if end.held_by in ended:
            yield Kind.DOUBLED, f"{end.id} ends {end.held_by} a second time."
        ended.add(end.held_by)
    for entry in evidence.entries:
        if entry.is_held and entry.id not in ended:
            yield Kind.LOST, f"{entry.id} is held, and never ended."


def _asked_for(entry: Entry) -> tuple[str, str, Decimal, str]:
    return entry.agent, entry.service, entry.amount, entry.asset


def _entries_of(account: Account, evidence: Evidence) -> Sequence[Entry]:
    """List the entries of an agent and of those below it: by what they say, or what held them."""
    return [
        entry
        for entry in evidence.entries
        if account.agent in (entry.agent, *entry.levels, *evidence.by_id.get(entry.held_by or "", entry).levels)
    ]


def _allowed(account: Account, entry: Entry) -> Decimal:
    # What is decided in the very moment of a change may be decided by either.
    now = next(one for one in reversed(account.limits) if one.since is None or one.since < entry.created_at)
    return min(now.day, now.week)


HOLD_CHECKS = (
    what_is_held_fits_beside_what_is_spent,
    a_person_has_approved_what_is_above_the_threshold,
    a_hold_ends_once,
)
