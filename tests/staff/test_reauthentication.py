"""Before money, keys, secrets and accounts everybody proves again who they are, at most five minutes before."""

import pytest
from allauth.mfa.models import Authenticator

from tests.support.sign_in import PASSWORD, Browser, audited, code_of, find, make_user, text_of, wait_for_next_code

GUARDED = "/console/account/recovery-codes/new/"


@pytest.fixture
def person(db):
    return make_user("Finance", authenticator=True)


@pytest.fixture
def late(person):
    """The browser of somebody whose last proof is more than five minutes old."""
    browser = Browser().sign_in(person)
    wait_for_next_code(person)
    pass_time(browser, 301)
    return browser


def pass_time(browser, seconds):
    session = browser.client.session
    session["proved_at"] -= seconds
    session.save()


def seed(person):
    return Authenticator.objects.get(user=person, type="recovery_codes").data["seed"]


def test_after_signing_in_nobody_is_asked_again_for_five_minutes(person):
    browser = Browser().sign_in(person)
    pass_time(browser, 298)

    assert "stop working" in text_of(browser.get(GUARDED))


def test_a_page_leads_to_the_confirmation_and_back(person, late):
    asked = late.get(f"{GUARDED}?a=b")

    assert asked["Location"] == "/console/account/confirm/?next=%2Fconsole%2Faccount%2Frecovery-codes%2Fnew%2F%3Fa%3Db"
    assert late.get(asked["Location"]).status_code == 200
    assert late.post(asked["Location"], proof=code_of(person))["Location"] == f"{GUARDED}?a=b"
    assert late.get(GUARDED).status_code == 200


def test_a_form_is_kept_in_the_page_that_asks_and_done_once_with_the_proof(person, late):
    before = seed(person)
    page = late.client.post(GUARDED, {"reason": 'say "why"', "_selected_action": ["a", "b"]})

    assert (page.status_code, seed(person)) == (200, before)
    assert find(r'name="reason" value="([^"]*)"', page) == "say &quot;why&quot;"
    assert page.content.decode().count('name="_selected_action"') == 2
    done = late.post(GUARDED, reason="why", proof=code_of(person))

    assert (done.status_code, seed(person) != before) == (302, True)
    assert audited(person)[-1] == "person.recovery_codes_made"


@pytest.mark.parametrize("proof", ["000000", "", PASSWORD])
def test_with_a_wrong_proof_nothing_is_done(person, late, proof):
    before = seed(person)

    page = late.post(GUARDED, reason="why", proof=proof)

    assert (page.status_code, seed(person)) == (200, before)
    assert 'name="reason" value="why"' in page.content.decode()
    assert late.get(GUARDED).status_code == 302


def test_the_code_that_signed_in_confirms_nothing(person):
    browser = Browser()
    browser.enter_password(person)
    code = code_of(person)
    browser.enter_code(code)
    pass_time(browser, 301)

    assert browser.post(GUARDED, proof=code).status_code == 200
    assert browser.get(GUARDED).status_code == 302


def test_who_has_no_authenticator_confirms_with_the_password(db):
    person = make_user()
    browser = Browser().sign_in(person)
    pass_time(browser, 301)
    page = "/console/account/password/"

    assert browser.post(f"/console/account/confirm/?next={page}", proof="wrong").status_code == 200
    assert browser.post(f"/console/account/confirm/?next={page}", proof=PASSWORD)["Location"] == page


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "/v1/logs", "/console/../x"])
def test_nobody_is_led_elsewhere_after_confirming(person, late, elsewhere):
    answer = late.post(f"/console/account/confirm/?next={elsewhere}", proof=code_of(person))

    assert answer["Location"] == "/console/"


def test_a_form_without_the_token_of_its_session_is_refused_with_a_right_proof(person, late):
    late.client.handler.enforce_csrf_checks = True
    before = seed(person)

    assert late.post(GUARDED, proof=code_of(person)).status_code == 403
    assert seed(person) == before
