"""One dishonest Administrator tries to be two people, through the console: each way ends in a refusal."""

import re
from decimal import Decimal

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.models import Group, User
from django.core import mail

from policy.models import PolicyRevision
from staff.audit import record
from staff.models import AuditEntry, ChangeRequest
from staff.people import make_account
from tests.support.factories import make_agent, new_name
from tests.support.sign_in import PASSWORD, Browser, make_user, text_of

STAFF, REQUESTS = "/console/auth/user/", "/console/staff/changerequest/"
NO_SECOND = "It takes a second Administrator, independent of you. There is none: manage.py createsuperuser"


@pytest.fixture(autouse=True, params=[True, False], ids=["with second factors", "without"])
def installation(request, db, settings):
    """Four eyes are on, and nobody else works here."""
    settings.FOUR_EYES, settings.TOTP_REQUIRED = True, request.param
    User.objects.update(is_active=False, is_superuser=False)
    Group.objects.get(name="Administrator").user_set.clear()


@pytest.fixture(params=[True, False], ids=["with e-mail", "without e-mail"])
def has_mail(request, settings):
    settings.CONSOLE_URL = "https://pay.example.com" if request.param else ""
    return request.param


@pytest.fixture
def mallory():
    return make_user("Administrator", authenticator=True, email="mallory@example.com")


@pytest.fixture
def hana():
    return make_user("Administrator", authenticator=True, email="hana@example.com")


@pytest.fixture
def desk(mallory):
    return Browser().sign_in(mallory)


def act(browser, action, user, **given):
    """Run an action on an account; returns all that the console then shows."""
    form = {"action": action, "index": "0", "_selected_action": [user.pk], "reason": "asked", **given}
    answer = browser.client.post(STAFF, form)
    return text_of(answer) + text_of(browser.get(STAFF))


def make(browser, name, role="Finance"):
    form = {"username": name, "name": name, "email": f"{name}@example.com", "roles": [role], "reason": "joins"}
    return text_of(browser.client.post(f"{STAFF}add/", form)) + text_of(browser.get(STAFF))


def decide(browser, request):
    answer = browser.post(f"{REQUESTS}{request.pk}/decide/", confirm="yes")
    return text_of(browser.get(answer["Location"]))


def waiting():
    return ChangeRequest.objects.filter(state="waiting").order_by("pk")


def links_in(*texts):
    return [link for text in texts for link in re.findall(r"/console/login/password/[\w-]+/[\w-]+/", text)]


# --- The first attack: a link for the only colleague, and then alone -------------------------------------------------
def test_a_link_for_the_only_colleague_is_refused_and_nothing_is_done_alone_afterwards(mallory, hana, desk, has_mail):
    assert NO_SECOND in act(desk, "make_link", hana)
    seen = act(desk, "send_link", hana)
    assert [message.to for message in mail.outbox] == ([["hana@example.com"]] if has_mail else [])
    assert links_in(seen) == []

    for name in ("puppet", "other"):
        make(desk, name)

    assert not User.objects.filter(username__in=("puppet", "other")).exists()
    assert [one.asked_by for one in waiting()] == [mallory.username] * 2
    for request in waiting():
        assert "somebody else has to confirm it" in decide(desk, request)
    assert not AuditEntry.objects.filter(action__in=("person.made", "person.link_made")).exists()


def test_the_only_colleagues_second_factor_is_not_reset_alone(hana, desk):
    assert NO_SECOND in act(desk, "reset_second_factor", hana)
    act(desk, "make_link", hana)

    assert NO_SECOND in act(desk, "reset_second_factor", hana)
    assert Authenticator.objects.filter(user=hana).count() == 2
    assert Browser().sign_in(hana).is_in()


@pytest.mark.parametrize("trick", ["deactivate", "change_roles", "expire"])
def test_nothing_that_she_does_to_her_colleague_makes_her_alone(mallory, hana, desk, trick):
    third = make_user("Finance", email="third@example.com")
    if trick == "deactivate":
        act(desk, "deactivate", hana)
    elif trick == "change_roles":
        assert NO_SECOND in act(desk, "change_roles", hana, roles=["Auditor"], before=["Administrator"])
    else:
        act(desk, "make_link", third)
        waiting().update(expires_at="2020-01-01T00:00Z")

    seen = make(desk, "puppet")
    assert links_in(act(desk, "make_link", third)) == []
    assert not User.objects.filter(username="puppet").exists()
    assert (NO_SECOND in seen) == (trick == "deactivate")


# --- The variant: two real new people, whose links she makes ----------------------------------------------------------
def test_of_two_new_people_that_a_hurried_colleague_confirms_she_becomes_none(mallory, hana, desk, has_mail):
    hers = Browser().sign_in(hana)
    for name in ("nina", "otto"):
        make(desk, name)
    for request in waiting():
        decide(hers, request)
    new = [User.objects.get(username=name) for name in ("nina", "otto")]

    seen = [act(desk, action, user) for action in ("send_link", "make_link") for user in new]
    asked = list(waiting())
    assert len(asked) == 2
    for request in asked:
        assert "somebody else has to confirm it" in decide(desk, request)
        decide(hers, request)
        seen.append(text_of(desk.get(f"{REQUESTS}{request.pk}/change/")))

    assert links_in(*seen) == []
    assert len(re.findall(r"[A-Z2-7]{4}-[A-Z2-7]{4}-[A-Z2-7]{4}", " ".join(seen))) == 2
    assert [message.to[0] for message in mail.outbox] == (["nina@example.com", "otto@example.com"] if has_mail else [])
    assert not any(User.objects.get(pk=user.pk).has_usable_password() for user in new)


# --- What she took in hand before: alone, or under the release before -------------------------------------------------
@pytest.fixture
def two_in_hand(mallory):
    """Two accounts of Finance that she has made alone, and opened by their links."""
    made = []
    for name in ("puppet", "other"):
        user = make_account(
            name, name=name, email=f"{name}@example.com", roles=["Finance"], by=mallory.username, reason="joins"
        )
        record("person.link_made", subject_type="person", subject=name, by=mallory.username)
        user.set_password(PASSWORD)
        user.save()
        made.append(Browser().sign_in(with_factor(user)))
    return made


def with_factor(user):
    other = make_user(username=new_name("factor"), authenticator=True)
    Authenticator.objects.filter(user=other).update(user=user)
    return user


def test_two_accounts_that_she_has_in_hand_change_no_limit(two_in_hand, hana):
    agent = make_agent(max_per_payment="10", daily_limit="10", weekly_limit="10")
    first, second = two_in_hand
    limits = {"max_per_payment": "900", "daily_limit": "900", "weekly_limit": "900", "allows": "all"}
    first.post(f"/console/policy/agent/{agent.pk}/policy/", **limits, seen="1", reason="more")
    (request,) = waiting()

    assert "are not independent" in decide(second, request)

    assert PolicyRevision.objects.get(agent=agent).daily_limit == Decimal(10)
    page = text_of(Browser().sign_in(hana).get(f"{STAFF}{User.objects.get(username='puppet').pk}/change/"))
    assert "who could use this account" in page


def test_an_administrator_made_by_two_that_are_one_is_no_second_person(two_in_hand, mallory, desk):
    User.objects.get(username="puppet").groups.set(Group.objects.filter(name="Administrator"))
    record(
        "person.roles_changed", subject_type="person", subject="puppet", by="command line",
        before={"roles": ["Finance"]}, after={"roles": ["Administrator"]},
    )  # fmt: skip

    assert NO_SECOND in make(desk, "third")
    assert NO_SECOND in make(two_in_hand[0], "third")
    assert not User.objects.filter(username="third").exists()
