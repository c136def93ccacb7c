"""What one person may let agents spend where four eyes are on: a threshold that does not help whoever splits."""

import random
from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.operations import create_agent, set_policy
from policy.proposals import propose_agent, propose_policy
from policy.revisions import limits_of
from staff.second_person import confirm
from tests.staff.people import make_user
from tests.support.factories import make_agent, new_name

pytestmark = pytest.mark.django_db
RIGHTS = ("policy.add_agent", "policy.change_agent")
ABOVE = Decimal(100)


@pytest.fixture(autouse=True)
def threshold(settings):
    settings.FOUR_EYES, settings.FOUR_EYES_ABOVE = True, {Asset.USDC: ABOVE}


@pytest.fixture
def ann():
    return make_user(*RIGHTS)


def limits(highest, services=None, *, place=2):
    """Make limits of which one is the highest, that of a week unless told otherwise."""
    payment, day, week = (Decimal(highest) if place == number else Decimal(0) for number in range(3))
    return Limits(payment, day, week, services)


def make(person, highest, asset=Asset.USDC, *, place=2):
    """Ask for an agent; returns its id, and whether one person was enough."""
    name = new_name("agent")
    outcome = propose_agent(name, asset, limits(highest, place=place), shown=[], reason="R", by=person)
    return name, outcome.request is None


def change(person, agent_id, highest, services=None, *, place=2):
    """Change an agent's limits; returns the request, or None if one person was enough."""
    new = limits(highest, services, place=place)
    return propose_policy(in_force(agent_id), new, shown=[], reason="R", by=person).request


def in_force(agent_id):
    return PolicyRevision.objects.select_related("agent").filter(agent=agent_id).latest("number")


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(("highest", "is_enough"), [("0", True), ("99.99", True), ("100", True), ("100.01", False)])
def test_one_person_makes_an_agent_up_to_the_threshold(ann, highest, is_enough, place):
    name, was_enough = make(ann, highest, place=place)

    assert was_enough is is_enough
    assert Agent.objects.filter(pk=name).exists() is is_enough


@pytest.mark.parametrize("asset", [Asset.EURC, Asset.SOL])
def test_an_asset_without_a_threshold_has_0(ann, asset):
    assert [make(ann, highest, asset)[1] for highest in ("0", "0.000001")] == [True, False]


def test_without_a_threshold_every_amount_takes_two(ann, settings):
    settings.FOUR_EYES_ABOVE = {}

    assert [make(ann, highest)[1] for highest in ("0", "0.01")] == [True, False]


def test_where_four_eyes_are_off_one_person_is_enough_and_nothing_counts(ann, settings):
    settings.FOUR_EYES = False
    assert make(ann, "5000")[1]

    settings.FOUR_EYES = True
    assert make(ann, "100")[1]


# --- Splitting --------------------------------------------------------------------------------------------------------
def test_ten_agents_below_the_threshold_are_one_change_above_it(ann):
    assert [make(ann, "20")[1] for _ in range(10)] == [True] * 5 + [False] * 5


def test_another_account_is_no_help(ann):
    assert make(ann, "60")[1]

    assert [make(make_user(*RIGHTS), highest)[1] for highest in ("60", "40")] == [False, True]


def test_a_limit_is_not_raised_above_it_in_steps(ann):
    name, _ = make(ann, "40")
    assert [change(ann, name, highest) is None for highest in ("70", "100", "100.01")] == [True, True, False]


def test_what_counts_is_the_limit_and_not_the_difference(ann):
    agent = make_agent(weekly_limit="500")

    request = propose_policy(
        in_force(agent.id), Limits(Decimal(10), Decimal(50), Decimal(501)), shown=[], reason="R", by=ann
    ).request

    assert request is not None


def test_another_service_counts_as_much_as_a_higher_limit(ann):
    agent = make_agent(max_per_payment="1", daily_limit="1", weekly_limit="500", services=["a"])
    wider = Limits(Decimal(1), Decimal(1), Decimal(500), ["a", "b"])

    assert propose_policy(in_force(agent.id), wider, shown=[], reason="R", by=ann).request is not None


def test_what_is_lowered_again_counts_for_a_week_because_it_may_have_been_spent(ann):
    name, _ = make(ann, "100")
    assert change(ann, name, "0") is None

    assert make(ann, "0.01")[1] is False
    assert change(ann, name, "100") is None


@pytest.mark.parametrize(("days", "is_enough"), [(6, False), (8, True)])
def test_after_a_week_only_what_is_in_force_counts(ann, days, is_enough):
    now = utc_now()
    agent = Agent.objects.create(id=new_name("agent"), asset="USDC", created_at=now, policy_revision=2)
    for number, highest, ended in ((1, 80, days + 1), (2, 10, days)):
        PolicyRevision.objects.create(
            agent=agent, number=number, max_per_payment=0, daily_limit=0, weekly_limit=highest, created_by="ann",
            created_at=now - timedelta(days=ended), is_by_one=True,
        )  # fmt: skip

    assert make(ann, "90")[1] is is_enough


# --- What does not count ----------------------------------------------------------------------------------------------
def test_what_two_have_let_in_does_not_count_even_after_one_of_them_lowers_it(ann):
    name, _ = make(ann, "0")
    request = change(ann, name, "500")
    assert request is not None
    confirm(request.pk, by=make_user(*RIGHTS))
    assert change(ann, name, "400") is None

    assert (in_force(name).is_by_one, make(ann, "100")[1]) == (False, True)


def test_lowering_what_one_person_let_in_leaves_it_in_the_count(ann):
    name, _ = make(ann, "80")
    assert change(ann, name, "60") is None

    assert in_force(name).is_by_one


def test_what_a_command_lets_in_does_not_count(ann):
    create_agent(new_name("agent"), asset=Asset.USDC, limits=limits("500"), by="command line")
    name, _ = make(ann, "80")
    set_policy(name, change=lambda _now: limits("500"), by="command line")

    assert in_force(name).is_by_one is False


# --- Any sequence -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(12))
def test_no_sequence_of_one_persons_acts_lets_more_than_the_threshold_be_spent_in_a_week(ann, seed):
    chance = random.Random(seed)
    others, most = [ann, make_user(*RIGHTS)], dict[str, Decimal]()
    agents: list[str] = []
    for _ in range(40):
        person, highest = chance.choice(others), str(chance.choice((0, 1, 7, 20, 33, 50, 99, 100, 101)))
        if not agents or chance.random() < 0.4:
            name, was_enough = make(person, highest, place=chance.randrange(3))
            agents += [name] if was_enough else []
        else:
            try:
                services = chance.choice((None, ["a"], ["a", "b"]))
                change(person, chance.choice(agents), highest, services, place=chance.randrange(3))
            except OperationRefused:
                continue  # the same waits for a second person already
        for name in agents:
            now = limits_of(in_force(name))
            most[name] = max(most.get(name, Decimal(0)), now.max_per_payment, now.daily_limit, now.weekly_limit)

        assert sum(most.values()) <= ABOVE
    assert most
