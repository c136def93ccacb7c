"""What must be true of every scenario. Each check yields what is not, with a sentence. Pure."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal

from tests.overspend.answers import UNAVAILABLE, Told
from tests.overspend.evidence import NOTHING, Entry, Evidence, Kind, Problem
from tests.overspend.hold_checks import HOLD_CHECKS
from tests.overspend.windows import COUNTS, find_late, told_spends, worst_window

_FIRST_SERVER_ERROR = 500


Check = Callable[[Evidence], Iterator[Problem]]


# --- No overspend -----------------------------------------------------------------------------------------------------
def every_limit_holds(evidence: Evidence) -> Iterator[Problem]:
    for name, count in COUNTS.items():
        spends = count(evidence)
        for account in evidence.accounts:
            window = worst_window(account.limits, spends.get(account.agent, ()))
            if window.over > 0:
                yield Kind.OVERSPENT, f"{account.agent} spent {window.spent} of {window.allowed}, say the {name}."


def nothing_passes_that_is_sent_too_late(evidence: Evidence) -> Iterator[Problem]:
    for told in find_late(evidence):
        yield Kind.OVERSPENT, f"{told}: it was sent when it had been forbidden."


def an_agent_spends_only_its_own_asset(evidence: Evidence) -> Iterator[Problem]:
    assets = {account.agent: account.asset for account in evidence.accounts}
    for entry in evidence.entries:
        if entry.is_approved and entry.asset != assets[entry.agent]:
            yield Kind.OVERSPENT, f"{entry.id} approves {entry.amount} {entry.asset} out of {assets[entry.agent]}."


def levels_count_as_the_log_has_signed(evidence: Evidence) -> Iterator[Problem]:
    known = {account.agent for account in evidence.accounts}
    signed = Counter(
        (level, str(entry.payment_id), entry.amount)
        for entry in evidence.entries
        if entry.is_approved
        for level in entry.levels
        if level in known
    )
    counted = Counter((one.level, one.payment_id, one.amount) for one in evidence.counted)
    yield from ((Kind.LOST, f"{one} is not counted there.") for one in signed - counted)
    yield from ((Kind.DOUBLED, f"{one} is counted there, and the log does not say so.") for one in counted - signed)


# --- No double payment ------------------------------------------------------------------------------------------------
def a_key_has_one_decision(evidence: Evidence) -> Iterator[Problem]:
    first: dict[tuple[str, str], Told] = {}
    afresh: Counter[tuple[str, str]] = Counter()
    for told in evidence.told:
        if told.is_final and told.is_decided and not told.is_conflict:
            before = first.setdefault((told.agent, told.key), told).answer
            if (before.status, before.text) != (told.status, told.answer.text):
                yield Kind.DOUBLED, f"{told}: the same key was answered {before.status} {before.text[:160]}"
            afresh[told.agent, told.key] += not told.answer.is_replay
    yield from ((Kind.DOUBLED, f"{key} was decided {count} times.") for key, count in afresh.items() if count > 1)
    for key, found in evidence.by_key.items():
        entries = [entry for entry in found if entry.held_by is None]
        if len(entries) > 1:
            yield Kind.DOUBLED, f"{key} has {len(entries)} entries."


def an_approval_is_one_payment(evidence: Evidence) -> Iterator[Problem]:
    payments = defaultdict(list)
    for payment in evidence.payments:
        payments[payment.entry_id].append(payment)
    for entry in evidence.entries:
        found = payments.pop(entry.id, [])
        wanted = [(entry.payment_id, entry.agent, entry.amount, entry.created_at)] if entry.is_approved else []
        if [(one.id, one.agent, one.amount, one.created_at) for one in found] != wanted:
            kind = Kind.DOUBLED if len(found) > len(wanted) else Kind.LOST
            yield kind, f"{entry.id} is to have {len(wanted)} payments as it says, and has {found}."
        for payment in found:
            if payment.transactions != 1:
                kind = Kind.DOUBLED if payment.transactions else Kind.LOST
                yield kind, f"{payment.id} has {payment.transactions} transactions that pay it."
    for strangers in payments.values():
        yield Kind.DOUBLED, f"Nobody decided {strangers}."


def payees_got_what_was_approved(evidence: Evidence) -> Iterator[Problem]:
    wanted: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for told in evidence.approvals.values():
        wanted[told.service, told.asset] += told.amount
    for payee in wanted.keys() | evidence.arrived.keys():
        arrived = evidence.arrived.get(payee, NOTHING)
        if arrived != wanted[payee]:
            kind = Kind.DOUBLED if arrived > wanted[payee] else Kind.LOST
            yield kind, f"{payee} got {arrived} on the chain, and clients were told of {wanted[payee]}."


# --- No lost decision -------------------------------------------------------------------------------------------------
def is_in_the_log(told: Told, evidence: Evidence) -> bool:
    """Tell whether the log has a decision as the client knows it."""
    entries = evidence.by_key.get((told.agent, told.key), [])
    if told.is_conflict:
        return bool(entries)
    if told.status == UNAVAILABLE:
        entry = evidence.by_id.get(str(told.log_id))
        return entry is not None and (entry.agent, entry.is_approved) == (told.agent, False)
    return any(_says(entry, told) for entry in entries)


def _says(entry: Entry, told: Told) -> bool:
    asked = (told.service, told.amount, told.asset, told.is_approved, told.is_held)
    if (entry.service, entry.amount, entry.asset, entry.is_approved, entry.is_held) != asked:
        return False
    return entry.payment_id == told.payment_id if told.is_approved or told.is_held else entry.id == told.log_id


def no_answer_is_lost(evidence: Evidence) -> Iterator[Problem]:
    for told in evidence.told:
        if told.is_decided and not is_in_the_log(told, evidence):
            yield Kind.LOST, f"{told}: that is not in the log."


def nothing_is_decided_that_nobody_was_told(evidence: Evidence) -> Iterator[Problem]:
    asked = {(told.agent, told.key) for told in evidence.told}
    for entry in evidence.entries:
        if entry.is_approved and entry.payment_id not in evidence.approvals:
            yield Kind.LOST, f"{entry.id} approves {entry.key}, and nobody was told."
        if entry.key is not None and (entry.agent, entry.key) not in asked:
            yield Kind.DOUBLED, f"{entry.id} decides {entry.key}, which nobody asked for."


# --- The scenario itself ----------------------------------------------------------------------------------------------
def every_request_is_answered(evidence: Evidence) -> Iterator[Problem]:
    flooders = {one.agent for one in evidence.accounts if one.is_flooder}
    final = {told.question for told in evidence.told if told.is_final}
    last = {told.question: told for told in evidence.told}
    for question, told in last.items():
        if question not in final and told.agent not in flooders:
            yield Kind.UNFIT, f"{told}, and was never decided."
    for told in evidence.told:
        if told.status >= _FIRST_SERVER_ERROR and told.status != UNAVAILABLE:
            yield Kind.UNFIT, f"{told}."


def as_much_is_spent_as_fits(evidence: Evidence) -> Iterator[Problem]:
    spends = told_spends(evidence)
    for account in evidence.accounts:
        total = sum((amount for _, amount in spends.get(account.agent, ())), NOTHING)
        if account.wanted is not None and total != account.wanted:
            yield Kind.UNFIT, f"{account.agent} spent {total}; it asked for more than the {account.wanted} that fit."


CHECKS: Sequence[Check] = (
    every_limit_holds,
    levels_count_as_the_log_has_signed,
    nothing_passes_that_is_sent_too_late,
    an_agent_spends_only_its_own_asset,
    a_key_has_one_decision,
    an_approval_is_one_payment,
    payees_got_what_was_approved,
    no_answer_is_lost,
    nothing_is_decided_that_nobody_was_told,
    every_request_is_answered,
    as_much_is_spent_as_fits,
    *HOLD_CHECKS,
)
