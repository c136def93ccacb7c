"""Signing in: a password, a code of an authenticator, and nothing less."""

import pytest
from django.contrib.sessions.models import Session

from tests.support.sign_in import PASSWORD, Browser, audited, code_of, make_user, recovery_codes_of, wait_for_next_code


@pytest.fixture
def person(db):
    return make_user("Finance", authenticator=True)


@pytest.fixture(autouse=True)
def totp_required(settings):
    settings.TOTP_REQUIRED = True


def test_password_and_code_let_somebody_in(person):
    browser = Browser()

    asked = browser.enter_password(person, next="/console/account/password/")
    assert (asked.status_code, asked["Location"]) == (302, "/console/login/code/")
    assert not browser.is_in()
    answer = browser.enter_code(code_of(person))

    assert (answer.status_code, answer["Location"]) == (302, "/console/account/password/")
    assert browser.is_in()
    assert audited(person) == ["person.signed_in"]


def test_a_password_alone_lets_nobody_in(person):
    browser = Browser()
    browser.enter_password(person)

    answers = [browser.get("/console/"), browser.get("/console/services/service/"), browser.post("/console/")]
    assert {answer.status_code for answer in answers} == {302}
    assert all(answer["Location"].startswith("/console/login/?next=") for answer in answers)


def test_a_code_alone_is_not_even_read(person):
    answer = Browser().enter_code(code_of(person))

    assert (answer.status_code, answer["Location"]) == (302, "/console/login/?next=/console/login/code/")


def test_a_code_is_taken_once(person):
    code = code_of(person)
    Browser().enter_password(person)
    first, second = Browser(), Browser("203.0.113.9")
    first.enter_password(person), second.enter_password(person)

    assert first.enter_code(code).status_code == 302
    refused = second.enter_code(code)

    assert (refused.status_code, "used before" in refused.content.decode()) == (200, True)
    assert not second.is_in()


def test_a_code_older_than_the_last_one_is_refused(person):
    browser = Browser().sign_in(person)
    browser.post("/console/logout/")
    browser.enter_password(person)

    assert browser.enter_code(code_of(person, steps=-1)).status_code == 200
    assert not browser.is_in()


@pytest.mark.parametrize("steps", [-1, 1])
def test_a_clock_that_is_half_a_minute_off_is_good_enough(person, steps):
    browser = Browser()
    browser.enter_password(person)

    assert browser.enter_code(code_of(person, steps=steps)).status_code == 302
    assert browser.is_in()


def test_a_recovery_code_stands_in_once(person):
    code = recovery_codes_of(person)[3]
    browser, other = Browser(), Browser()
    browser.enter_password(person)
    assert browser.enter_code(code).status_code == 302
    assert browser.is_in()

    other.enter_password(person)
    assert other.enter_code(code).status_code == 200
    assert not other.is_in()


@pytest.mark.parametrize(
    "flags", [{"is_staff": False}, {"is_active": False}, {"is_staff": False, "is_superuser": True}]
)
def test_who_is_not_active_staff_is_told_what_a_stranger_is_told(db, flags):
    answers = [Browser().enter_password(make_user(**flags)), Browser().enter_password("nobody-of-this-name")]

    told = ["The user name or the password is wrong" in answer.content.decode() for answer in answers]
    assert ([answer.status_code for answer in answers], told) == ([200, 200], [True, True])


def test_the_session_is_another_one_after_signing_in(person):
    browser = Browser()
    browser.get("/console/login/")
    browser.enter_password(person)
    before = browser.session
    browser.enter_code(code_of(person))

    assert browser.session != before
    assert not Session.objects.filter(session_key=before).exists()


def test_a_session_that_somebody_else_chose_becomes_nobodys(person):
    """Session fixation: the thief knows the cookie with which the victim begins."""
    thief, victim = Browser(), Browser()
    thief.enter_password("nobody")
    known = str(thief.client.session.session_key)
    victim.client.cookies["sessionid"] = thief.client.cookies["sessionid"] = known

    victim.enter_password(person)
    victim.enter_code(code_of(person))

    assert (victim.is_in(), thief.is_in()) == (True, False)


@pytest.mark.parametrize(
    "elsewhere",
    ["https://evil.example/", "//evil.example/console/", "/\\evil.example", "javascript:alert(1)", "/v1/logs",
     "https:///evil.example", "/console/../../evil", "\t//evil.example", "http://localhost/console/"],
)  # fmt: skip
def test_nobody_is_led_elsewhere_after_signing_in(person, elsewhere):
    browser = Browser()
    browser.enter_password(person, next=elsewhere)
    answer = browser.enter_code(code_of(person))

    assert answer["Location"] == "/console/"


def test_who_has_lost_nothing_can_sign_in_again_after_signing_out(person):
    browser = Browser().sign_in(person)
    browser.post("/console/logout/")
    assert not browser.is_in()

    wait_for_next_code(person)
    assert browser.sign_in(person).is_in()
    assert audited(person) == ["person.signed_in", "person.signed_out", "person.signed_in"]


def test_where_no_second_factor_is_required_a_password_is_enough(db, settings):
    settings.TOTP_REQUIRED = False
    assert Browser().sign_in(make_user()).is_in()


def test_a_name_is_known_however_it_is_capitalised_and_a_password_is_not(db, settings):
    settings.TOTP_REQUIRED = False
    user = make_user()

    assert Browser().enter_password(user.username.upper()).status_code == 302
    assert Browser().enter_password(user, PASSWORD.upper()).status_code == 200
