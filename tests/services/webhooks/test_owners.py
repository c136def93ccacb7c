"""Owners of agents are told of payments that a person has to approve, by the machinery that payees have."""

from datetime import timedelta
from typing import Any

import pytest
from allowance_client import verify_webhook
from allowance_client.errors import WebhookInvalid

from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import format_instant, utc_now
from policy.operations import pause_agent
from policy.signer import published_keys
from services.models import Outcome, WebhookEvent, endpoint_of_agent
from services.operations import disable_service
from services.webhooks.agent_urls import set_agent_url
from services.webhooks.courier import Courier
from services.webhooks.operations import (
    replay_since,
    reveal_secrets,
    rotate_secret,
    send_again,
    send_test_event,
)
from tests.services.webhooks.attempts import PATIENT_S
from tests.services.webhooks.behaviours import answers
from tests.services.webhooks.told import MINUTE, SECOND, delivery_of, log_of, outcomes_of
from tests.support.factories import decide, make_service
from tests.support.holds import approve, asks_above, decline, finish, say

pytestmark = pytest.mark.django_db

MOMENT = timedelta(microseconds=1)


# --- What is told -----------------------------------------------------------------------------------------------------
def test_a_held_payment_is_told_over_https_signed_with_the_owners_secret_and_logged(open_owner):
    with open_owner(answers(200, b"Thanks")) as owner:
        held = owner.hold()

        assert owner.deliver() == 1

        (request,) = owner.receiver.requests
        event = owner.read(request, secret=owner.secret())
        assert (event.type, event.agent_id, event.service) == ("approval.requested", owner.agent.id, owner.service.id)
        assert event.data == {
            "paymentId": held.payment_id, "logId": held.id, "agentId": owner.agent.id, "service": owner.service.id,
            "amount": "6", "asset": "USDC", "status": "pending_approval", "reason": "A test", "metadata": None,
            "createdAt": format_instant(held.created_at), "rule": "under_approval_limit",
            "approvalExpiresAt": held.explanation["approvalExpiresAt"], "message": held.explanation["message"],
            "declineReason": None,
        }  # fmt: skip
        (attempt,) = log_of(event.id)
        assert (attempt.outcome, attempt.status, attempt.answer) == ("delivered", 200, "Thanks")
        assert delivery_of(event.id).state == "delivered"


def pauses(held):
    pause_agent(held.agent_id, by="ann")
    return finish(held)


def waits(held):
    return finish(held, utc_now() + timedelta(hours=25))


def lets_the_payee_lapse(held):
    """Approve what its policy refuses by then."""
    say(held)
    disable_service(held.service, by="ann")
    return finish(held)


ENDS: dict[str, Any] = {
    "approved": (approve, "approved", "under_max_payment", None),
    "declined": (decline, "declined", "approved_by_person", "A person has declined this payment: It is needed."),
    "paused": (
        pauses, "declined", "approved_by_person", "The agent was paused while this payment waited for approval.",
    ),
    "expired": (
        waits, "expired", "approved_by_person", "Nobody has approved this payment within 24 hours.",
    ),
    "refused by its policy of then": (lets_the_payee_lapse, "declined", "service_approved", None),
}  # fmt: skip


@pytest.mark.parametrize("how", ENDS)
def test_each_end_of_a_hold_is_told_with_the_decision_that_ended_it(how, open_owner):
    end_it, status, rule, reason = ENDS[how]
    with open_owner() as owner:
        held = owner.hold()
        final = end_it(held)

        assert owner.deliver(after=26 * 60 * MINUTE) == 2

        told = {one.type: one for one in (owner.read(r, secret=owner.secret()) for r in owner.receiver.requests)}
        assert set(told) == {"approval.requested", f"approval.{status}"}
        data = told[f"approval.{status}"].data
        assert (data["status"], data["paymentId"], data["logId"]) == (status, held.payment_id, final.id)
        assert (data["createdAt"], data["rule"]) == (format_instant(held.created_at), rule)
        assert data["approvalExpiresAt"] == held.explanation["approvalExpiresAt"]
        expected = None if status == "approved" else reason or final.explanation["message"]
        assert (data["message"], data["declineReason"]) == (final.explanation["message"], expected)


def test_what_needs_no_person_is_not_told(open_owner):
    with open_owner() as owner:
        decide(owner.agent, owner.service, "5")

        assert owner.events() == []


def test_an_agent_without_a_url_has_no_events_and_no_endpoint(open_owner):
    with open_owner() as owner:
        set_agent_url(owner.agent.id, None, by="ann")
        others = asks_above()

        for agent in (owner.agent, others):
            approve(decide(agent, owner.service, "6"))

        assert not WebhookEvent.objects.filter(agent__in=[owner.agent.id, others.id]).exists()
        with pytest.raises(OperationRefused, match="has no webhook endpoint"):
            send_test_event(endpoint_of_agent(others.id), by="ann")
        with pytest.raises(OperationRefused, match="has no webhook URL"):
            send_test_event(owner.endpoint, by="ann")


def test_the_payee_is_told_nothing_of_what_waits_and_the_owner_nothing_of_what_is_paid(open_owner):
    with open_owner() as owner:
        owner.service = make_service(webhook_url="https://payee.example/hook")
        held = owner.hold()
        assert not WebhookEvent.objects.filter(service=owner.service).exists()

        approve(held)

        assert [one.type for one in WebhookEvent.objects.filter(service=owner.service)] == ["payment.approved"]
        assert [one.type for one in owner.events()] == ["approval.requested", "approval.approved"]


# --- Who believes it --------------------------------------------------------------------------------------------------
def test_the_key_that_payees_verify_with_signs_nothing_for_an_owner_who_could_hand_it_on(open_owner):
    with open_owner() as owner:
        owner.hold()
        owner.deliver()

        (request,) = owner.receiver.requests
        assert "v1a," not in request.header("webhook-signature")
        headers, secret = dict(request.headers), owner.secret()
        for by in ({"keys": published_keys()}, {"secret": secret}):
            with pytest.raises(WebhookInvalid):
                verify_webhook(headers, request.body, service=owner.service.id, **by)
        with pytest.raises(WebhookInvalid, match="another agent"):
            verify_webhook(headers, request.body, agent="agent-other", secret=secret)


def test_a_test_event_says_which_agent_it_is_of(open_owner):
    with open_owner() as owner:
        sent = send_test_event(owner.endpoint, by="ann")
        owner.hold()
        assert owner.deliver() == 2

        tested, told = (
            owner.read(one, secret=owner.secret())
            for one in sorted(owner.receiver.requests, key=lambda one: one.header("webhook-id") != sent.id)
        )
        assert (tested.id, tested.type, tested.service, tested.payment_id) == (sent.id, "webhook.test", "", None)
        assert set(tested.data) == set(told.data)


# --- As payees have it ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("address", ["10.0.0.1", "169.254.169.254", "100.64.0.1", "::1", "64:ff9b::a00:1"])
def test_a_name_that_leads_inside_is_told_nothing(address, open_owner):
    with open_owner() as owner:
        owner.hold()
        owner.addresses = [address]
        courier = Courier(lookup=owner.lookup, allow_loopback=False, clock=lambda: owner.now, timeout_s=PATIENT_S)

        assert courier.deliver() == 1

        (event,) = owner.events()
        assert outcomes_of(event.id) == [Outcome.BLOCKED_ADDRESS]
        assert owner.receiver.requests == []


def test_what_fails_is_told_again_and_a_410_disables_the_endpoint(open_owner):
    with open_owner(answers(500), answers(200), answers(410)) as owner:
        owner.hold()
        (event,) = owner.events()
        assert owner.deliver() == 1
        assert owner.deliver(after=5 * SECOND - MOMENT) == 0
        assert owner.deliver(after=MOMENT) == 1
        assert outcomes_of(event.id) == [Outcome.STATUS, Outcome.DELIVERED]

        owner.hold("7")
        owner.deliver(after=MINUTE)

        with pytest.raises(OperationRefused, match="disabled"):
            send_again(event.id, by="ann")


def test_staff_send_again_what_was_told(open_owner):
    with open_owner() as owner:
        since = utc_now() - MINUTE
        owner.hold()
        owner.deliver()

        assert replay_since(owner.endpoint, since, by="ann") == 1

        assert owner.deliver(after=MINUTE) == 1
        assert len({request.header("webhook-id") for request in owner.receiver.requests}) == 1


def test_a_rotated_secret_signs_beside_the_new_one_for_a_day_and_on_another_host_neither_does(open_owner):
    with open_owner() as owner:
        owner.hold()
        first = owner.secret()
        rotate_secret(owner.endpoint, by="ann")
        owner.deliver()
        (request,) = owner.receiver.requests
        for secret in (first, owner.secret()):
            owner.read(request, secret=secret)

        before = owner.secret()
        set_agent_url(owner.agent.id, "https://elsewhere.example/hook", by="ann")

        assert set(reveal_secrets(owner.endpoint, by="ann")).isdisjoint({first, before})
