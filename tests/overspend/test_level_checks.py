"""Whether what is wrong with budgets within budgets is noticed: evidence of a clean storm, spoilt in one place each."""

from dataclasses import replace
from decimal import Decimal

from tests.overspend.evidence import Account, Counted, Evidence, Kind
from tests.overspend.judging import judge
from tests.overspend.test_judging import found, limits, storm


def tree(day: int = 2) -> Evidence:
    """Make two payments of an agent under another one."""
    evidence = storm(day=5, is_within_others=True)
    entries = [replace(one, levels=("root",) if one.is_approved else ()) for one in evidence.entries]
    counted = [Counted("root", one.id, one.amount, one.created_at) for one in evidence.payments]
    root = Account("root", "USDC", [limits(day)], wanted=Decimal(2))
    return replace(evidence, accounts=[*evidence.accounts, root], entries=entries, counted=counted)


def test_what_fits_at_each_level_is_clean_and_is_summed_once():
    verdict = judge(tree())

    assert verdict.is_clean
    assert (verdict.allowed, verdict.spent) == (Decimal(2), Decimal(2))


def test_what_is_paid_below_is_overspend_of_whoever_is_above():
    verdict = judge(tree(day=1))

    assert verdict.overspend == 1
    assert Kind.OVERSPENT in found(verdict)


def test_a_level_that_counts_more_than_is_signed_is_over_its_limit_and_wrong():
    evidence = tree()
    more = replace(evidence.counted[0], payment_id="pay_9")

    assert found(judge(replace(evidence, counted=[*evidence.counted, more]))) == {Kind.OVERSPENT, Kind.DOUBLED}


def test_what_a_level_does_not_count_is_lost():
    evidence = tree()

    assert found(judge(replace(evidence, counted=evidence.counted[:1]))) == {Kind.LOST}


def test_what_is_held_below_is_beside_what_is_spent_above():
    evidence = tree()
    held = replace(evidence.entries[0], id="log_0", key="key-0", is_approved=False, is_held=True)
    end = replace(held, id="log_9", key=None, is_held=False, held_by="log_0", levels=())
    told = found(judge(replace(evidence, entries=[held, *evidence.entries, end])))

    assert Kind.OVERSPENT in told  # two were spent while a third one was held, of two
