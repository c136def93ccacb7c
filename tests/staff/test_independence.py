"""A second person is no help to whoever has their account in hand."""

from typing import Any

import pytest
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.contrib.auth.models import User

from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from staff import links, people
from staff.independence import acts_alone, find_seconds
from staff.kinds import Kind, register
from staff.models import RequestState
from staff.people_requests import propose_change
from staff.second_person import Proposal, confirm, propose
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
        links.make_link(victim.username, by=thief.username)
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


def test_two_that_the_thief_has_in_hand_are_no_two_people(done, thief):
    take_in_hand(thief, "made")
    people.make_account("other", name="O", email="o@example.com", roles=["Finance"], by=thief.username)
    first, second = (User.objects.get(username=name) for name in ("puppet", "other"))

    with pytest.raises(OperationRefused, match="not independent"):
        confirm_as(second, ask(first))
    assert done == []


def test_an_account_that_somebody_takes_in_hand_after_it_asked_cannot_be_confirmed_by_them(done, thief):
    victim = make_user("Finance", authenticator=True)
    request = ask(victim)
    links.make_link(victim.username, by=thief.username)

    with pytest.raises(OperationRefused, match="not independent"):
        confirm_as(thief, request)
    assert done == []


def test_nobody_confirms_what_is_about_their_own_account(done, thief):
    other = make_user("Administrator", authenticator=True)
    third = make_user("Administrator")
    outcome = propose_change("reset_second_factor", other.username, by=thief, reason="R", shown=[])
    assert outcome.request

    with pytest.raises(OperationRefused, match="your own account"):
        confirm_as(other, outcome.request)
    confirm_as(third, outcome.request)


def test_an_administrator_of_ones_own_making_is_no_second_administrator(done, thief):
    people.make_account("helper", name="H", email="h@example.com", roles=["Administrator"], by=thief.username)

    with pytest.raises(OperationRefused, match=r"manage\.py createsuperuser"):
        find_seconds(thief.username, "puppet")
    other = make_user("Administrator")
    assert find_seconds(thief.username, "puppet") == [other.username]
    with pytest.raises(OperationRefused, match="There is none"):
        find_seconds(thief.username, other.username)


def test_who_acts_alone_makes_no_administrator(done, thief):
    with pytest.raises(OperationRefused, match="second Administrator has to be independent"):
        make(thief, "helper", "Administrator")

    assert not User.objects.filter(username="helper").exists()
    assert not make(thief, "puppet", "Finance").request


def test_what_a_command_made_is_in_nobodys_hand(done, thief):
    people.make_account("ann", name="A", email="a@example.com", roles=["Finance"], by="command line")

    confirm_as(User.objects.get(username="ann"), ask(thief))
    assert done == [thief.username]


@pytest.mark.parametrize("by_thief", [True, False])
def test_an_administrator_whose_colleagues_are_all_deactivated_is_not_alone(done, thief, by_thief):
    honest = make_user("Administrator")
    people.deactivate(honest.username, by=thief.username if by_thief else "command line")

    with pytest.raises(OperationRefused, match=r"There is none: manage\.py createsuperuser"):
        make(thief, "puppet", "Finance")

    assert not User.objects.filter(username="puppet").exists()


def test_an_administrator_whose_colleague_is_none_any_more_is_not_alone(done, thief):
    honest = make_user("Administrator")
    people.change_roles(honest.username, roles=["Auditor"], before=["Administrator"], by="command line")

    assert not acts_alone(thief.username)


def test_a_link_does_not_take_over_an_account_that_single_sign_on_lets_in(done, thief):
    victim = make_user("Finance", last_login=utc_now())
    new, guarded = make_user("Finance"), make_user("Finance", last_login=utc_now(), authenticator=True)

    with pytest.raises(OperationRefused, match="has no authenticator"):
        links.make_link(victim.username, by=thief.username)

    for other in (new, guarded):
        assert links.make_link(other.username, by=thief.username)


def test_whoever_made_all_administrators_acts_alone_no_more_and_learns_who_can(done, thief, settings):
    settings.FOUR_EYES = False  # once it was
    for name in ("ann", "bea"):
        assert not make(thief, name, "Administrator").request
    settings.FOUR_EYES = True

    with pytest.raises(OperationRefused, match="There is none"):
        make(thief, "puppet", "Finance")
    for name in ("cleo", "dana"):
        people.make_account(name, name=name, email=f"{name}@example.com", roles=["Administrator"], by="command line")
    for honest in ("cleo", "dana"):
        people.reset_second_factor(give_factor(thief).username, by=honest)

    with pytest.raises(OperationRefused, match="Nobody is independent of you: cleo and dana have to do this together"):
        make(thief, "puppet", "Finance")
    assert not User.objects.filter(username="puppet").exists()


def make(by, name, role):
    given = {"name": name, "email": f"{name}@example.com", "roles": [role]}
    return propose_change("make", name, by=by, reason="R", shown=[], **given)


def give_factor(user):
    TOTP.activate(user, generate_totp_secret())
    return user
