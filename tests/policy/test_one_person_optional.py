"""What one person may let agents spend, by their optional limits: to loosen one counts as much as to raise a limit."""

from dataclasses import replace
from decimal import Decimal

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from policy.limits import Limits
from policy.models import PolicyRevision
from policy.more_limits import NO_MORE, MoreLimits
from policy.operations import set_policy
from policy.proposals import propose_agent, propose_policy
from policy.revisions import limits_of
from staff.models import ChangeRequest
from staff.second_person import confirm
from tests.staff.people import make_user
from tests.support.factories import make_agent, new_name
from tests.support.limit_ladders import RUNGS, limited, optional

pytestmark = pytest.mark.django_db
RIGHTS = ("policy.add_agent", "policy.change_agent")
FIRST_PAYMENTS = MoreLimits(new_payee_payments=3, new_payee_max_per_payment=Decimal(1))


@pytest.fixture(autouse=True)
def threshold(settings):
    settings.FOUR_EYES, settings.FOUR_EYES_ABOVE = True, {Asset.USDC: Decimal(100)}


@pytest.fixture
def ann():
    return make_user(*RIGHTS)


def in_force(agent_id):
    return PolicyRevision.objects.select_related("agent").filter(agent=agent_id).latest("number")


def change(person, agent_id, more):
    """Change an agent's optional limits; returns the request, or None if one person was enough."""
    present = in_force(agent_id)
    return propose_policy(present, replace(limits_of(present), more=more), shown=[], reason="R", by=person).request


def make(person, highest, more=NO_MORE):
    """Ask for an agent; returns its id, and whether one person was enough."""
    name, limits = new_name("agent"), Limits(Decimal(0), Decimal(0), Decimal(highest), None, more)
    return name, propose_agent(name, Asset.USDC, limits, shown=[], reason="R", by=person).request is None


@pytest.mark.parametrize(("field", "wider", "narrower"), RUNGS)
def test_above_the_threshold_one_person_tightens_a_limit_and_two_loosen_it(ann, field, wider, narrower):
    agent = make_agent(weekly_limit="500", **optional(field, wider))

    assert change(ann, agent.id, limited(field, narrower)) is None
    assert in_force(agent.id).more == limited(field, narrower)
    request = change(ann, agent.id, limited(field, wider))

    assert request is not None
    assert in_force(agent.id).more == limited(field, narrower)
    confirm(request.pk, by=make_user(*RIGHTS))
    assert (in_force(agent.id).more, in_force(agent.id).is_by_one) == (limited(field, wider), False)


def test_one_person_limits_first_payments_and_two_end_that(ann):
    agent = make_agent(weekly_limit="500")

    assert change(ann, agent.id, FIRST_PAYMENTS) is None
    assert change(ann, agent.id, NO_MORE) is not None


def test_two_are_needed_where_one_limit_is_loosened_though_all_others_are_tightened(ann):
    agent = make_agent(weekly_limit="500", total_limit=Decimal(50), payments_per_day=3)

    tighter = replace(limits_of(in_force(agent.id)), weekly_limit=Decimal(400), more=MoreLimits(total_limit=Decimal(1)))

    assert propose_policy(in_force(agent.id), tighter, shown=[], reason="R", by=ann).request is not None


# --- The threshold ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("highest", "is_enough"), [("100", True), ("100.01", False)])
def test_up_to_the_threshold_one_person_removes_a_limit_as_they_raise_one(ann, highest, is_enough):
    agent = make_agent(max_per_payment="1", daily_limit="1", weekly_limit=highest, hourly_limit=Decimal(1))

    assert (change(ann, agent.id, NO_MORE) is None) is is_enough
    assert in_force(agent.id).is_by_one is is_enough


def test_what_is_removed_counts_as_let_in_by_one_from_then_on(ann):
    agent = make_agent(max_per_payment="1", daily_limit="1", weekly_limit="80", hourly_limit=Decimal(1))
    assert make(ann, "30")[1]

    assert change(ann, agent.id, NO_MORE) is not None
    assert change(ann, agent.id, MoreLimits(hourly_limit=Decimal("0.99"))) is None
    assert not in_force(agent.id).is_by_one


def test_an_optional_limit_lets_no_agent_be_made_above_the_threshold(ann):
    assert [make(ann, highest, MoreLimits(total_limit=Decimal(1)))[1] for highest in ("100.01", "100")] == [False, True]


def test_to_tighten_leaves_what_one_person_let_in_in_the_count(ann):
    name, _ = make(ann, "80")

    assert change(ann, name, MoreLimits(total_limit=Decimal(1))) is None

    assert in_force(name).is_by_one
    assert make(ann, "20.01")[1] is False


def test_where_four_eyes_are_off_one_person_removes_any_limit(ann, settings):
    settings.FOUR_EYES = False
    agent = make_agent(weekly_limit="500", hourly_limit=Decimal(1))

    assert change(ann, agent.id, NO_MORE) is None
    assert in_force(agent.id).more == NO_MORE


# --- Requests ---------------------------------------------------------------------------------------------------------
def test_nobody_is_asked_to_confirm_limits_that_would_be_refused(ann):
    agent = make_agent(weekly_limit="500", payments_per_day=1)

    with pytest.raises(OperationRefused, match="To limit the first payments to a payee, give their number"):
        change(ann, agent.id, MoreLimits(new_payee_payments=3))
    assert not ChangeRequest.objects.filter(subject=agent.id).exists()


def test_a_request_is_of_one_revision_even_if_only_an_optional_limit_changed_since(ann):
    agent = make_agent(weekly_limit="500", payments_per_day=1)
    request = change(ann, agent.id, NO_MORE)
    assert request is not None
    set_policy(agent.id, change=lambda now: replace(now, more=MoreLimits(total_limit=Decimal(1))), by="bea")

    with pytest.raises(OperationRefused, match="changed meanwhile"):
        confirm(request.pk, by=make_user(*RIGHTS))
    assert in_force(agent.id).more == MoreLimits(total_limit=Decimal(1))
