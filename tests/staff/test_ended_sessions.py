"""What somebody sends when their session has ended: it does nothing, and is there again for them once they sign in."""

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from policy.models import Agent
from services.models import Service
from staff.models import ChangeRequest
from tests.foundation.console.conftest import Person
from tests.foundation.console.conftest import address as address_of
from tests.staff.test_hand_made_requests import SENT, WHO, everything, rows
from tests.support.factories import make_agent, make_service, new_name
from tests.support.sign_in import PASSWORD, Browser, code_of, make_user, text_of, wait_for_next_code
from tests.support.webhook_rows import make_delivery, make_endpoint

__all__ = ["rows"]

AGENTS = "/console/policy/agent/"
SIGNED_OUT = "You were signed out before this was sent, so nothing was done."


@pytest.fixture
def person(db):
    return make_user("Finance")


@pytest.fixture
def late(person):
    """The browser of somebody who comes back after half an hour."""
    browser = Browser().sign_in(person)
    let_end(browser)
    return browser


def let_end(browser):
    session = browser.client.session
    session["seen_at"] -= 31 * 60
    session.save()


def send_late(browser, address, **form):
    """Send a form when the session has ended; returns where to sign in, which leads back."""
    answer = browser.client.post(address, form)
    assert answer.status_code == 302
    assert answer["Location"].startswith("/console/login/?next=")
    return answer["Location"]


def sign_in(browser, user, address):
    """Sign in on the page that was led to; returns the page that then comes."""
    hidden = re.search(r'name="next" value="([^"]*)"', browser.get(address).content.decode())
    assert hidden
    form = {"username": user.username, "password": PASSWORD, "next": unescape(hidden[1])}
    return browser.client.post("/console/login/", form, follow=True)


def pausing(agent, reason="It pays twice"):
    return {"action": "pause", "index": "0", "_selected_action": agent.id, "reason": reason}


def test_what_was_filled_in_is_shown_again_after_signing_in_and_done_once_it_is_sent_again(person, late):
    agent = make_agent()

    address = send_late(late, AGENTS, **pausing(agent))
    assert "what you had filled in is shown again" in text_of(late.get(address))
    page = sign_in(late, person, address)

    assert SIGNED_OUT in text_of(page)
    assert ">It pays twice</" in page.content.decode() or 'value="It pays twice"' in page.content.decode()
    assert Agent.objects.get(pk=agent.pk).status == "active"
    here = page.redirect_chain[-1][0]
    assert late.client.post(here, pausing(agent)).status_code == 302
    assert Agent.objects.get(pk=agent.pk).status == "paused"
    assert SIGNED_OUT not in text_of(late.client.get(here, follow=True))


@pytest.mark.parametrize("what", ["agent", "policy", "refusal", "payee"])
def test_every_form_of_the_console_is_filled_in_again(person, late, what):
    agent, service = make_agent(), make_service(approved=False)
    asked = ChangeRequest.objects.create(
        kind="policy.raise", subject_type="policy", subject=agent.id, arguments={}, shown=[], reason="R",
        asked_by="ann", asked_at=agent.created_at, expires_at="2100-01-01T00:00Z",
    )  # fmt: skip
    limits = {"max_per_payment": "7.77", "daily_limit": "8", "weekly_limit": "9", "allows": "all"}
    address, form, typed = {
        "agent": (f"{AGENTS}add/", {"id": "agent-new", "asset": "USDC", **limits, "again": "1"}, "7.77"),
        "policy": (f"{AGENTS}{agent.id}/policy/", limits, "7.77 USDC"),
        "refusal": (f"/console/staff/changerequest/{asked.pk}/decide/", {"reason": "Too much", "refuse": "yes"},
                    "Too much"),
        "payee": ("/console/services/service/", {"action": "reject", "index": "0", "_selected_action": service.id,
                  "shown": f"{service.registration} {service.id}", "reason": "Nobody knows them"}, "Nobody knows them"),
    }[what]  # fmt: skip

    page = sign_in(late, person, send_late(late, address, **form))

    assert typed in page.content.decode()
    assert SIGNED_OUT in text_of(page)
    assert not Agent.objects.filter(pk="agent-new").exists()
    assert ChangeRequest.objects.get(pk=asked.pk).state == "waiting"
    assert Service.objects.get(pk=service.pk).status == "pending_approval"
    assert Agent.objects.get(pk=agent.pk).policy_revision == 1


def test_nobody_else_who_signs_in_there_sees_it_and_it_does_not_wait_for_its_author(person, late):
    agent, other = make_agent(), make_user("Finance")
    address = send_late(late, AGENTS, **pausing(agent))

    page = sign_in(late, other, address)

    assert "It pays twice" not in page.content.decode()
    assert "kept" not in late.client.session or late.client.session["kept"] == {}
    late.post("/console/logout/")
    assert "It pays twice" not in sign_in(late, person, address).content.decode()
    assert Agent.objects.get(pk=agent.pk).status == "active"


def test_what_is_kept_is_in_no_other_browser_of_the_same_person(person, late):
    address = send_late(late, AGENTS, **pausing(make_agent()))

    page = sign_in(Browser(), person, address)

    assert "It pays twice" not in page.content.decode()


def test_who_has_an_authenticator_comes_back_to_it_behind_the_code(db):
    person = make_user("Finance", authenticator=True)
    browser = Browser().sign_in(person)
    wait_for_next_code(person)
    let_end(browser)
    agent = make_agent()
    address = send_late(browser, AGENTS, **pausing(agent))

    asked = sign_in(browser, person, address)
    assert "It pays twice" not in asked.content.decode()
    page = browser.client.post("/console/login/code/", {"code": code_of(person)}, follow=True)

    assert "It pays twice" in page.content.decode()


@pytest.mark.parametrize("address", ["/console/account/password/", "/console/account/confirm/", "/console/login/"])
def test_passwords_and_codes_are_not_kept(late, address):
    secrets = {"oldpassword": PASSWORD, "password1": "another fine one", "proof": "123456", "password": PASSWORD}

    late.client.post(address, {**secrets, "username": "x"})

    for session in Session.objects.all():
        kept = str(session.get_decoded())
        assert not any(secret in kept for secret in secrets.values())


def test_what_another_site_lets_a_browser_send_is_not_kept(person):
    browser = Browser(enforce_csrf_checks=True)
    browser.client.force_login(person)
    let_end(browser)

    answer = browser.client.post(AGENTS, pausing(make_agent(), reason="Forged"))

    assert answer["Location"] == f"/console/login/?next={AGENTS}"
    assert "Forged" not in str([session.get_decoded() for session in Session.objects.all()])


def test_what_a_stranger_sends_is_not_read(db):
    stranger = Client(SERVER_NAME="localhost")

    answer = stranger.post(AGENTS, pausing(make_agent()))

    assert answer["Location"] == f"/console/login/?next={AGENTS}"
    assert "sessionid" not in stranger.cookies


def test_what_is_too_large_or_cannot_be_stored_is_not_kept(late):
    for reason in ("x" * 70_000, "a\0b"):
        late.client.post(AGENTS, pausing(make_agent(), reason))
        assert "kept" not in late.client.session or late.client.session["kept"] == {}


def test_what_needs_no_answer_is_not_done_by_signing_in(person, late):
    delivery = make_delivery(make_endpoint(), state="failed", attempts=10)
    again = {"action": "send_again", "index": "0", "_selected_action": delivery.pk, "from_page": delivery.pk}

    page = sign_in(late, person, send_late(late, "/console/services/webhookdelivery/", **again))

    assert page.redirect_chain[-1][0] == address_of("services_webhookdelivery_change", delivery.pk)
    assert "Nothing was done" in text_of(page)
    delivery.refresh_from_db()
    assert delivery.state == "failed"


def test_who_signs_out_leaves_nothing_behind(person):
    browser = Browser().sign_in(person)
    browser.client.post(AGENTS, pausing(make_agent(), reason=" "))
    assert browser.client.session["kept"]

    browser.post("/console/logout/")

    assert "kept" not in browser.client.session


def test_a_page_that_asks_is_there_again_after_signing_in(person):
    browser = Browser().sign_in(person)
    step = browser.client.post(AGENTS, pausing(make_agent(), reason=""))["Location"]
    let_end(browser)

    asked = browser.client.get(step)
    page = sign_in(browser, person, asked["Location"])

    assert "every payment of the agent is refused" in text_of(page)


@pytest.mark.parametrize("label", WHO)
def test_no_action_does_anything_by_being_looked_at_whatever_was_sent(rows, label):
    admin = Person(make_user(is_superuser=True, username=new_name("root")))
    key = str(rows[label].pk)

    for action in WHO[label]:
        session = admin.client.session
        session["seen_at"] = 0
        session.save()
        form = {"action": action, "index": "0", "_selected_action": key, "shown": f"1 {key}", **SENT}
        led = admin.client.post(f"/console/{label.replace('.', '/')}/", form)["Location"]
        (step,) = parse_qs(urlsplit(led).query)["next"]
        admin.client.force_login(User.objects.get(username=admin.name))
        before = everything()

        assert admin.client.get(step).status_code in (200, 302), action
        assert "step=" in step
        assert everything() == before, action
