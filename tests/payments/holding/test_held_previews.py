"""A preview of other limits judges what was held once: as it was decided in the end, at the moment of that."""

from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.kernel.times import utc_now
from ledger.preview import Preview, preview_limits
from policy.limits import Limits
from policy.models import Agent
from policy.more_limits import MoreLimits
from tests.support.factories import decide, make_service
from tests.support.holds import approve, asks_above, decline

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]
WIDE = Limits(Decimal(10), Decimal(1000), Decimal(1000))


@pytest.fixture
def agent():
    return asks_above(daily_limit="18")


def preview(agent: Agent, limits: Limits) -> Preview:
    return preview_limits(Agent.objects.get(pk=agent.pk), limits, now=utc_now(), payees={})


def test_what_waits_is_not_judged_and_what_has_ended_is_judged_once(agent):
    service = make_service()
    decide(agent, service, "6")
    assert preview(agent, WIDE).decisions == 0
    approve(decide(agent, service, "6"))
    assert preview(agent, WIDE).decisions == 1
    decline(decide(agent, service, "6"))

    found = preview(agent, WIDE)

    assert (found.decisions, found.refused.count) == (2, 0)
    # Nobody would have been asked about either.
    assert (found.unasked.count, dict(found.let_through.by_rule)) == (1, {"approved_by_person": 1})


def test_what_a_person_has_declined_stays_declined_where_they_would_be_asked(agent):
    decline(decide(agent, make_service(), "6"))
    asking = Limits(Decimal(10), Decimal(1000), Decimal(1000), None, MoreLimits(approval_above=Decimal(5)))

    assert preview(agent, asking).otherwise == 0


def test_other_limits_refuse_what_a_person_has_approved(agent):
    approve(decide(agent, make_service(), "6"))

    found = preview(agent, Limits(Decimal("5.99"), Decimal(1000), Decimal(1000)))

    assert (found.refused.count, dict(found.refused.by_rule)) == (1, {"under_max_payment": 1})


def test_a_threshold_refuses_nothing_of_the_past(agent):
    decide(agent, make_service(), "4")

    asking = MoreLimits(approval_above=Decimal(1), approval_above_day=Decimal(1), approval_for_first=True)
    found = preview(agent, Limits(Decimal(10), Decimal(1000), Decimal(1000), None, asking))

    assert (found.decisions, found.refused.count, found.held.count) == (1, 0, 1)


def test_what_was_approved_counts_from_then_on(agent):
    service, began = make_service(), utc_now() - timedelta(days=2)
    held = decide(agent, service, "6", at=began)
    approve(held, began + timedelta(hours=20))
    decide(agent, service, "5", at=began + timedelta(hours=30))

    found = preview(agent, Limits(Decimal(10), Decimal("10.99"), Decimal(1000)))

    assert (found.decisions, found.refused.count, dict(found.refused.by_rule)) == (2, 1, {"under_daily_limit": 1})
