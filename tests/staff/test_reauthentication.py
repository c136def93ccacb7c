"""Before money, keys, secrets and accounts everybody proves again who they are, at most five minutes before."""

import re

import pytest
from allauth.mfa.models import Authenticator

from policy.models import Agent
from policy.operations import pause_agent
from tests.support.factories import make_agent
from tests.support.sign_in import PASSWORD, Browser, code_of, make_user, text_of, wait_for_next_code

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


def test_a_form_is_kept_shown_again_after_the_proof_and_done_once_it_is_sent_again(person, late):
    agent = make_agent()
    agents = "/console/policy/agent/"
    resume_agent = {"action": "resume", "index": "0", "_selected_action": agent.id, "reason": 'say "why"'}
    pause_agent(agent.id, by="test")
    asked = late.client.post(agents, resume_agent)

    assert asked["Location"].startswith("/console/account/confirm/?next=")
    back = late.client.post(asked["Location"], {"proof": code_of(person)})
    assert Agent.objects.get(pk=agent.id).status == "paused"
    page = late.get(back["Location"])
    assert "say &quot;why&quot;" in page.content.decode()
    assert Agent.objects.get(pk=agent.id).status == "paused"

    assert late.post(back["Location"], **resume_agent).status_code == 302
    assert Agent.objects.get(pk=agent.id).status == "active"


def test_passwords_and_codes_that_were_sent_too_late_are_kept_nowhere(person, late):
    answer = late.client.post("/console/account/password/", {"oldpassword": PASSWORD, "password1": "another fine one"})

    assert answer["Location"] == "/console/account/confirm/?next=%2Fconsole%2Faccount%2Fpassword%2F"
    assert PASSWORD not in str(late.client.session.items())
    page = late.get(late.post(answer["Location"], proof=code_of(person))["Location"]).content.decode()
    assert PASSWORD not in page
    assert "another fine one" not in page


@pytest.mark.parametrize("proof", ["000000", "", PASSWORD])
def test_with_a_wrong_proof_nothing_is_done(person, late, proof):
    before = seed(person)
    confirm = late.client.post(GUARDED, {"reason": "why"})["Location"]

    page = late.get(late.post(confirm, proof=proof)["Location"])

    assert seed(person) == before
    assert re.search(r'role="alert">[^<]*(is wrong|is required)', page.content.decode())
    assert late.get(GUARDED).status_code == 302


def test_a_proof_that_is_sent_with_a_form_confirms_nothing(person, late):
    before = seed(person)

    assert late.post(GUARDED, proof=code_of(person)).status_code == 302
    assert seed(person) == before
    assert late.get(GUARDED).status_code == 302


def test_the_code_that_signed_in_confirms_nothing(person):
    browser = Browser()
    browser.enter_password(person)
    code = code_of(person)
    browser.enter_code(code)
    pass_time(browser, 301)

    browser.post("/console/account/confirm/", proof=code)
    assert browser.get(GUARDED).status_code == 302


def test_who_has_no_authenticator_confirms_with_the_password(db):
    person = make_user()
    browser = Browser().sign_in(person)
    pass_time(browser, 301)
    page = "/console/account/password/"
    confirm = f"/console/account/confirm/?next={page}"

    assert browser.post(confirm, proof="wrong")["Location"] == confirm
    assert browser.post(confirm, proof=PASSWORD)["Location"] == page


@pytest.mark.parametrize("elsewhere", ["https://evil.example/", "//evil.example", "/v1/logs", "/console/../x"])
def test_nobody_is_led_elsewhere_after_confirming(person, late, elsewhere):
    answer = late.post(f"/console/account/confirm/?next={elsewhere}", proof=code_of(person))

    assert answer["Location"] == "/console/"


def test_a_form_without_the_token_of_its_session_is_refused_with_a_right_proof(person, late):
    late.client.handler.enforce_csrf_checks = True
    before = seed(person)

    assert late.post(f"/console/account/confirm/?next={GUARDED}", proof=code_of(person)).status_code == 403
    assert late.post(GUARDED).status_code == 403
    assert seed(person) == before
