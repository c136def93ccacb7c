"""A policy that begins to count payments in the middle of a storm counts all of them, and lets none too many pass."""

from dataclasses import replace
from decimal import Decimal

import pytest

from ledger.models import LogEntry
from ledger.tallies import find_wrong_tallies
from policy.more_limits import NO_MORE, MoreLimits
from policy.operations import set_policy
from tests.payments.deciding.test_concurrency import Target
from tests.support.invariants import check_agent
from tests.support.kills import wait_until
from tests.support.storms import Storm

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(50)]
_SHOTS, _MOST, _BEFORE = 300, 100, 20


def change_to(target, more):
    set_policy(target.agent.id, change=lambda present: replace(present, more=more), by="test")


@pytest.mark.parametrize(
    "more", [MoreLimits(payments_per_day=_MOST), MoreLimits(payee_daily_limit=Decimal(_MOST))], ids=["day", "payee"]
)
def test_what_was_paid_until_a_policy_counts_is_counted_and_no_more_is_paid_than_its_limit(servers, more):
    target = Target(servers, daily_limit="1000", weekly_limit="1000")

    storm = Storm([target.shot() for _ in range(_SHOTS)], 3, 8)
    for number, _ in enumerate(storm):
        if number == _BEFORE:  # as many answers have come, and more payments are under way
            change_to(target, more)

    approved = LogEntry.objects.filter(agent=target.agent, result="approved")
    by_the_new = approved.filter(policy_revision=2).count()
    by_the_old = approved.filter(policy_revision=1).count()
    assert by_the_old < _MOST, "The storm was over before the policy was changed."
    assert by_the_old + by_the_new == _MOST
    assert list(find_wrong_tallies(target.agent)) == []
    check_agent(target.agent.id)


def test_what_is_paid_while_a_policy_does_not_count_is_counted_once_it_does_again(servers):
    target = Target(servers, daily_limit="1000", weekly_limit="1000")
    counting = MoreLimits(payments_per_day=_MOST)
    entries = LogEntry.objects.filter(agent=target.agent)
    changes = {_BEFORE: counting, 2 * _BEFORE: NO_MORE, 3 * _BEFORE: counting}

    storm = Storm([target.shot() for _ in range(_SHOTS)], 3, 8)
    for number, _ in enumerate(storm):
        if (more := changes.get(number)) is not None:
            change_to(target, more)
        if more is NO_MORE:
            wait_until(entries.filter(policy_revision=3).exists, "something is paid while nothing is counted")

    approved = entries.filter(result="approved")
    assert approved.filter(policy_revision=3).exists(), "Nothing was paid while the policy did not count."
    assert approved.filter(policy_revision__lt=4).count() < _MOST, "The storm was over before the last change."
    assert approved.count() == _MOST
    check_agent(target.agent.id)
