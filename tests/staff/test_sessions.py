"""Sessions end by themselves, and when their owner or an Administrator says so."""

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import User

from tests.support.sign_in import PASSWORD, Browser, audited, make_user, text_of, wait_for_next_code

MINUTE, HOUR = 60, 3600
SESSIONS = "/console/account/sessions/"


@pytest.fixture
def person(db):
    return make_user("Finance", authenticator=True)


def age(browser, **members):
    session = browser.client.session
    for name, seconds in members.items():
        session[name] -= seconds
    session.save()


def test_a_session_ends_after_thirty_minutes_in_which_nobody_was_seen(person):
    browser = Browser().sign_in(person)
    age(browser, seen_at=29 * MINUTE)
    assert browser.is_in()

    age(browser, seen_at=31 * MINUTE)
    answer = browser.get("/console/services/service/")

    assert answer["Location"] == "/console/login/?next=/console/services/service/"
    assert "for 30 minutes you did nothing here" in text_of(browser.get(answer["Location"]))
    assert "for 30 minutes" not in text_of(browser.get(answer["Location"]))
    assert audited(person)[-1] == "person.signed_out"


def test_who_does_something_stays_for_twelve_hours_and_no_longer(person):
    browser = Browser().sign_in(person)
    for _ in range(23):
        age(browser, seen_at=29 * MINUTE, signed_in_at=29 * MINUTE)
        assert browser.is_in()
    age(browser, signed_in_at=HOUR)

    assert not browser.is_in()


def test_what_a_page_fetches_by_itself_keeps_no_session_alive(person):
    browser = Browser().sign_in(person)
    age(browser, seen_at=29 * MINUTE)
    before = browser.client.session["seen_at"]

    assert browser.client.get("/console/", headers={"Sec-Fetch-Dest": "empty"}).status_code == 200
    assert browser.client.session["seen_at"] == before


def test_a_form_that_comes_too_late_does_nothing(person):
    browser = Browser().sign_in(person)
    age(browser, seen_at=31 * MINUTE)

    answer = browser.post("/console/account/recovery-codes/new/")

    assert answer["Location"].startswith("/console/login/")
    assert "person.recovery_codes_made" not in audited(person)


def test_a_session_from_before_this_release_ends(person):
    browser = Browser().sign_in(person)
    session = browser.client.session
    del session["signed_in_at"]
    session.save()

    assert not browser.is_in()


def test_somebody_sees_their_own_sessions_and_ends_one(person):
    here = Browser("203.0.113.1").sign_in(person)
    there = Browser("203.0.113.2", headers={"user-agent": "Old Phone"}).sign_in(person)
    Browser("203.0.113.3").sign_in(make_user())

    page = text_of(here.get(SESSIONS))
    assert ("203.0.113.1" in page, "203.0.113.2" in page, "Old Phone" in page) == (True, True, True)
    assert "203.0.113.3" not in page
    ended = UserSession.objects.get(user=person, ip="203.0.113.2")
    assert here.post(SESSIONS, session=str(ended.pk)).status_code == 302

    assert (here.is_in(), there.is_in()) == (True, False)
    assert audited(person)[-1] == "person.session_ended"


def test_somebody_ends_all_their_other_sessions(person):
    here, *others = (Browser().sign_in(person) for _ in range(3))

    here.post(SESSIONS, session="others")

    assert [browser.is_in() for browser in (here, *others)] == [True, False, False]


@pytest.mark.parametrize("number", ["theirs", "0", "x", "-1", "99999999999999999999"])
def test_nobody_ends_a_session_of_somebody_else(person, number):
    other = make_user()
    theirs = Browser().sign_in(other)
    given = str(UserSession.objects.get(user=other).pk) if number == "theirs" else number

    Browser().sign_in(person).post(SESSIONS, session=given)

    assert theirs.is_in()


def test_a_new_password_ends_all_other_sessions(person):
    here, there = Browser().sign_in(person), Browser().sign_in(person)
    new = "another fine password"

    answer = here.post("/console/account/password/", oldpassword=PASSWORD, password1=new, password2=new)

    assert answer.status_code == 302
    assert (here.is_in(), there.is_in()) == (True, False)
    assert audited(person)[-1] == "person.password_changed"


@pytest.mark.parametrize("change", [{"is_active": False}, {"is_staff": False}])
def test_who_is_deactivated_is_out_at_once(person, change):
    browser = Browser().sign_in(person)

    User.objects.filter(pk=person.pk).update(**change)

    assert not browser.is_in()


def test_where_and_with_what_somebody_was_seen_last_is_shown(person):
    browser = Browser("203.0.113.1").sign_in(person)
    age(browser, seen_at=5 * MINUTE)
    browser.client.get("/console/", REMOTE_ADDR="203.0.113.99", headers={"user-agent": "New Browser"})

    assert "203.0.113.99" in text_of(browser.get(SESSIONS))
    wait_for_next_code(person)


def test_who_has_no_password_is_told_how_to_get_one(db):
    person = make_user("Finance")
    person.set_unusable_password()
    person.save()
    browser = Browser()
    browser.client.force_login(person)

    answer = browser.client.get("/console/account/password/", follow=True)

    assert answer.redirect_chain == [("/console/account/sessions/", 302)]
    assert "You have no password here" in text_of(answer)
    assert "Change your password" not in text_of(answer)
