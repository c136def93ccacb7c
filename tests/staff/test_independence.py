"""A second person is no help to whoever has their account in hand."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from allowance.kernel.errors import OperationRefused
from allowance.kernel.times import utc_now
from staff import people
from staff.models import RequestState
from staff.people_requests import has_independent_colleague, propose_change
from staff.second_person import Kind, Proposal, confirm, propose, register
from tests.support.sign_in import make_user


@pytest.fixture
def done(settings):
    """What a change that needs two was made with, if it was."""
    settings.FOUR_EYES = True
    made: list[str] = []

    def perform(_arguments, by, _reason):
        made.append(by)
        return "Done."

    register(Kind("test.move_money", "Move money", "ledger.add_balancemovement", perform))
    return made


@pytest.fixture
def thief(db):
    """Somebody who decides about money and about accounts."""
    return make_user("Finance", "Administrator")


def ask(person):
    proposal = Proposal("test.move_money", "agent", "agent-1", {}, [], "to me")
    outcome = propose(proposal, by=User.objects.get(pk=person.pk))
    assert outcome.request
    return outcome.request


def confirm_as(person, request):
    return confirm(request.pk, by=User.objects.get(pk=person.pk))


def take_in_hand(thief, how):
    """Get hold of an account that may move money; give it back."""
    if how == "made":
        roles: dict[str, Any] = {"name": "Puppet", "email": "puppet@example.com", "roles": ["Finance"]}
        return people.make_account("puppet", by=thief.username, **roles)
    victim = make_user("Finance", authenticator=True)
    if how == "reset":
        people.reset_second_factor(victim.username, by=thief.username)
    elif how == "link":
        people.make_link(victim.username, by=thief.username)
    elif how == "roles":
        people.change_roles(victim.username, roles=["Auditor"], before=["Finance"], by=thief.username)
        people.change_roles(victim.username, roles=["Finance"], before=["Auditor"], by=thief.username)
    elif how == "activated":
        people.deactivate(victim.username, by=thief.username)
        people.activate(victim.username, by=thief.username)
    return victim


HOW = ["made", "reset", "link", "roles", "activated"]


@pytest.mark.parametrize("how", HOW)
def test_an_account_that_the_thief_has_in_hand_cannot_confirm(done, thief, how):
    puppet = take_in_hand(thief, how)
    request = ask(thief)

    with pytest.raises(OperationRefused, match="not independent"):
        confirm_as(puppet, request)
    request.refresh_from_db()
    assert (done, request.state) == ([], RequestState.WAITING)


@pytest.mark.parametrize("how", HOW)
def test_what_such_an_account_asks_for_the_thief_cannot_confirm(done, thief, how):
    request = ask(take_in_hand(thief, how))

    with pytest.raises(OperationRefused, match="not independent"):
        confirm_as(thief, request)
    assert done == []


def test_somebody_else_can(done, thief):
    puppet = take_in_hand(thief, "made")
    honest = make_user("Finance")

    confirm_as(honest, ask(thief))
    confirm_as(honest, ask(puppet))

    assert done == [thief.username, puppet.username]


def test_an_account_stays_in_hand_when_others_change_it_later(done, thief):
    puppet = take_in_hand(thief, "made")
    other = make_user("Administrator")
    people.change_roles("puppet", roles=["Finance", "Auditor"], before=["Finance"], by=other.username)

    with pytest.raises(OperationRefused, match="not independent"):
        confirm_as(puppet, ask(thief))


def test_an_administrator_of_ones_own_making_is_no_second_administrator(done, thief):
    people.make_account("helper", name="H", email="h@example.com", roles=["Administrator"], by=thief.username)

    assert not has_independent_colleague(thief)
    make_user("Administrator")
    assert has_independent_colleague(thief)


def test_what_a_command_made_is_in_nobodys_hand(done, thief):
    people.make_account("ann", name="A", email="a@example.com", roles=["Finance"], by="command line")

    confirm_as(User.objects.get(username="ann"), ask(thief))
    assert done == [thief.username]


def test_an_administrator_who_deactivates_all_others_is_not_alone(done, thief):
    honest = make_user("Administrator")
    people.deactivate(honest.username, by=thief.username)

    outcome = propose_change(
        "make", "puppet", by=thief, reason="R", shown=[], name="P", email="p@example.com", roles=["Finance"]
    )

    assert outcome.request
    assert not User.objects.filter(username="puppet").exists()


def test_a_link_does_not_take_over_an_account_that_single_sign_on_lets_in(done, thief):
    victim = make_user("Finance", last_login=utc_now())
    new, guarded = make_user("Finance"), make_user("Finance", last_login=utc_now(), authenticator=True)

    with pytest.raises(OperationRefused, match="has no authenticator"):
        people.make_link(victim.username, by=thief.username)

    for other in (new, guarded):
        assert people.make_link(other.username, by=thief.username)


def test_whoever_made_all_administrators_acts_alone_no_more_once_they_are_two(done, thief):
    def make(name, role):
        return propose_change(
            "make", name, by=thief, reason="R", shown=[], name=name, email=f"{name}@example.com", roles=[role]
        )

    for name in ("ann", "bea"):
        assert not make(name, "Administrator").request

    with pytest.raises(OperationRefused, match="two of them have to do this"):
        make("puppet", "Finance")
    assert not User.objects.filter(username="puppet").exists()
