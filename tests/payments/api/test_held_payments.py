"""Payments that a person has to approve, as the API tells of them: 202, what became of it, and never for others."""

import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial

import pytest
import requests

from foundation.kernel.times import format_instant, utc_now
from ledger.models import Hold, HoldAnswer
from payments.api.views import waiting_room
from payments.api.waiting import MOST_WAITING
from payments.holding.answering import answer_hold
from payments.models import Payment
from payments.payment_states import read_payment_page
from policy.models import ApiKey
from policy.operations import pause_agent
from tests.payments.api.test_get_payment import MEMBERS
from tests.support.answered_holds import approve, decline, expire, finish
from tests.support.answers import error_of
from tests.support.factories import make_agent, make_api_key, make_service, new_name
from tests.support.localnets import EVM
from tests.support.openapi_document import PAYMENT, at, validate
from tests.support.refusals import body_for
from tests.support.waiting import full

ONE, LIST, LOG = "/v1/payments/{id}", "/v1/payments", "/v1/logs"
ANSWERED = ["id", "status", "amount", "asset", "service", "tx", "policyRevision", "spentToday", "createdAt"]
WHY = "A person has to approve a payment above 5.00 USDC."


@pytest.fixture
def agent(db):
    return make_agent(approval_above=Decimal(5))


@pytest.fixture
def payment(payment):
    return {**payment, "amount": "6.00"}


@pytest.fixture
def document(anonymous):
    return anonymous.get("/v1/openapi.json").json()


@pytest.fixture
def documented(document):
    def check(where, response, status):
        assert response.status_code == status, response.content
        validate(document, at(document, where)["responses"][str(status)], response.json())
        return response.json()

    return check


def test_it_is_answered_with_202_and_says_why_and_until_when(api, payment, documented):
    response = api.pay(payment)

    answer = documented(PAYMENT, response, 202)
    assert list(answer) == [*ANSWERED, "rule", "message", "approvalExpiresAt"]
    assert (answer["status"], answer["tx"], answer["amount"]) == ("pending_approval", None, "6.00")
    assert (answer["rule"], answer["message"], answer["spentToday"]) == ("under_approval_limit", WHY, "6.00")
    assert answer["approvalExpiresAt"][10:] == answer["createdAt"][10:]  # a day later
    assert response["Location"] == f"/v1/payments/{answer['id']}"
    assert "Idempotent-Replayed" not in response
    assert not Payment.objects.filter(pk=answer["id"]).exists()


def test_the_same_key_is_answered_with_the_same_bytes_until_somebody_has_answered(api, payment):
    key = new_name("key")
    first, again = api.pay(payment, key), api.pay(payment, key)

    assert (again.status_code, again.content) == (202, first.content)
    assert (again["Idempotent-Replayed"], again["Location"]) == ("true", first["Location"])
    assert Hold.objects.count() == 1
    error_of(api.pay({**payment, "amount": "7.00"}, key), 409, "idempotency_conflict")


def test_the_same_key_is_answered_with_the_payment_once_it_is_approved(api, payment, documented):
    key = new_name("key")
    held = api.pay(payment, key).json()
    entry = approve(held["id"])

    response = api.pay(payment, key)

    answer = documented(PAYMENT, response, 201)
    assert list(answer) == ANSWERED
    assert (answer["status"], answer["tx"], answer["createdAt"]) == ("approved", entry.tx, held["createdAt"])
    assert answer["id"] == held["id"]
    assert response["Idempotent-Replayed"] == "true"
    assert api.pay(payment, key).content == response.content
    shown = documented((ONE, "get"), api.get(response["Location"]), 200)
    assert list(shown) == MEMBERS
    assert [*shown.items()][: len(answer)] == [*answer.items()]


def pause(payment_id):
    pause_agent(Hold.objects.get(pk=payment_id).agent_id, by="ann")
    return finish(payment_id)


def revoke(payment_id):
    ApiKey.objects.filter(pk=Hold.objects.get(pk=payment_id).api_key).update(revoked_at=utc_now())
    return finish(payment_id)


REFUSED = {
    decline: ("declined", "A person has declined this payment: Too dear."),
    expire: ("expired", "Nobody has approved this payment within 24 hours."),
    pause: ("declined", "The agent was paused while this payment waited for approval."),
    revoke: ("declined", "The API key that asked for this payment was revoked while it waited for approval."),
}


@pytest.mark.parametrize("end", REFUSED)
def test_the_same_key_is_refused_for_ever_with_what_has_ended_it(client_of, agent, payment, documented, end):
    key, (status, message) = new_name("key"), REFUSED[end]
    held = client_of(agent=agent, scopes=["payments"]).pay(payment, key).json()
    entry = end(held["id"])

    api = client_of()
    response = api.pay(payment, key)

    error = error_of(response, 403, "approval_declined")
    documented(PAYMENT, response, 403)
    assert (error["rule"], error["logId"], error["message"]) == ("approved_by_person", entry.id, message)
    assert error["heldAt"] == format_instant(Hold.objects.get(pk=held["id"]).created_at)
    assert ("answeredBy" in error, error.get("answerReason")) == (False, "Too dear." if end is decline else None)
    assert response["Idempotent-Replayed"] == "true"
    assert "Retry-After" not in response
    assert api.pay(payment, key).content == response.content
    shown = documented((ONE, "get"), api.get(f"/v1/payments/{held['id']}"), 200)
    assert list(shown) == [*MEMBERS, "approvalExpiresAt", "declinedAt", "declineReason"]
    assert (shown["status"], shown["declineReason"], shown["logId"]) == (status, message, entry.id)


def test_a_payment_that_waits_is_shown_as_it_was_answered_and_listed_among_the_others(api, agent, payment, documented):
    before, held = api.pay({**payment, "amount": "1"}).json(), api.pay(payment).json()
    after = api.pay({**payment, "amount": "2"}).json()

    shown = documented((ONE, "get"), api.get(f"/v1/payments/{held['id']}"), 200)
    page = documented((LIST, "get"), api.get(LIST, {"agentId": agent.id}), 200)

    assert [*shown.items()][: len(ANSWERED)] == [*held.items()][: len(ANSWERED)]
    assert shown["approvalExpiresAt"] == held["approvalExpiresAt"]
    assert (shown["declinedAt"], shown["declineReason"], shown["transactions"]) == (None, None, [])
    assert [one["id"] for one in page["data"]] == [after["id"], held["id"], before["id"]]
    assert page["data"][1] == shown


def test_pages_of_both_kinds_have_each_payment_once(api, agent, payment):
    made = [api.pay({**payment, "amount": amount}).json()["id"] for amount in ("6", "1", "7", "2", "8")]
    seen, query = [], {"agentId": agent.id, "limit": "2"}
    while query.get("cursor", "first") is not None:
        page = api.get(LIST, query).json()
        seen += [[one["id"] for one in page["data"]]]
        query["cursor"] = page["nextCursor"]

    assert [len(page) for page in seen] == [2, 2, 1]
    assert [one for page in seen for one in page] == made[::-1]


@pytest.mark.parametrize("end", [None, approve, decline, expire])
def test_it_is_found_by_its_key_and_by_its_status_whatever_has_become_of_it(api, agent, payment, end):
    key = new_name("key")
    held = api.pay(payment, key).json()
    if end is not None:
        end(held["id"])
    status = api.get(f"/v1/payments/{held['id']}").json()["status"]

    by_key = api.get(LIST, {"agentId": agent.id, "idempotencyKey": key}).json()["data"]
    by_status = {
        one: api.get(LIST, {"agentId": agent.id, "status": one}).json()["data"]
        for one in ("approved", "pending_approval", "declined", "expired")
    }

    assert [one["id"] for one in by_key] == [held["id"]]
    assert {one for one, found in by_status.items() if found} == {status}


def test_the_log_has_the_held_decision_and_the_one_that_ends_it(api, agent, payment, documented):
    held = api.pay(payment).json()
    approve(held["id"])

    (begun,) = documented((LOG, "get"), api.get(LOG, {"agentId": agent.id, "result": "held"}), 200)["data"]
    (ended,) = documented((LOG, "get"), api.get(LOG, {"agentId": agent.id, "result": "approved"}), 200)["data"]

    assert (begun["rule"], begun["paymentId"], begun["tx"]) == ("under_approval_limit", held["id"], None)
    assert begun["explanation"]["approvalExpiresAt"] == held["approvalExpiresAt"]
    assert (ended["paymentId"], ended["explanation"]["heldBy"]) == (held["id"], begun["id"])
    assert (ended["explanation"]["answeredBy"], ended["explanation"]["answerReason"]) == ("fiona", "It is needed.")


def test_an_evaluation_says_that_a_person_would_be_asked(api, payment, documented):
    response = api.post("/v1/payments/evaluate", payment)

    told = documented(("/v1/payments/evaluate", "post"), response, 200)
    assert (told["result"], told["rule"], told["message"]) == ("held", "under_approval_limit", WHY)
    assert (told["code"], told["allowedAt"]) == (None, None)
    (rule,) = (one for one in told["rules"] if one["rule"] == "under_approval_limit")
    assert (rule["passed"], rule["limit"], rule["requested"], rule["headroom"]) == (False, "5.00", "6.00", "0.00")
    assert told["rules"][-1] == {**told["rules"][-1], "rule": "policy_signer_available", "passed": None}
    assert not Hold.objects.exists()


def test_what_another_rule_refuses_too_is_refused_and_nobody_is_asked(api, payment):
    error = error_of(api.pay({**payment, "amount": "11"}), 422, "budget_exceeded")

    assert error["rule"] == "under_max_payment"
    assert not Hold.objects.exists()


def test_it_has_no_proof(api, payment):
    error_of(api.get(f"/v1/payments/{api.pay(payment).json()['id']}/proof"), 404, "payment_not_found")


def test_another_agents_key_does_not_learn_of_it(client_of, api, payment):
    held = api.pay(payment).json()
    other = client_of(agent=make_agent(), scopes=["payments"])

    error_of(other.get(f"/v1/payments/{held['id']}"), 404, "payment_not_found")
    assert other.get(LIST).json()["data"] == []


# --- Prefer: wait
def wait(api, body, prefer, key):
    return api.post(PAYMENT[0], body, idempotency_key=key, prefer=prefer)


def test_waiting_ends_with_the_time_while_nobody_answers(api, payment):
    key, began = new_name("key"), time.monotonic()

    response = wait(api, payment, "wait=1", key)

    assert time.monotonic() - began >= 1
    assert (response.status_code, response["Preference-Applied"]) == (202, "wait=1")


@pytest.mark.parametrize(("end", "status"), [(approve, 201), (decline, 403), (expire, 403)])
def test_a_request_that_waits_is_answered_with_what_somebody_decides(committed, servers, end, status):
    EVM.observe()
    agent, service = make_agent(approval_above=Decimal(5)), EVM.make_service()
    headers = {"Authorization": f"Bearer {make_api_key()}", "Idempotency-Key": new_name("key"), "Prefer": "wait=30"}
    ask = partial(
        requests.post, f"{servers.urls[0]}{PAYMENT[0]}", json=body_for(agent, service, "6"), headers=headers, timeout=60
    )
    with ThreadPoolExecutor(1) as others:
        began, waiting = time.monotonic(), others.submit(ask)
        while (hold := Hold.objects.filter(agent=agent).first()) is None:
            time.sleep(0.05)
        assert not waiting.done()
        end(hold.id)
        response = waiting.result()

    assert time.monotonic() - began < 25
    assert response.status_code == status
    assert response.headers.get("Preference-Applied") == ("wait=30" if status == 201 else None)
    assert "Idempotent-Replayed" not in response.headers


def test_when_too_many_wait_it_is_answered_at_once(api, payment):
    with full(waiting_room, MOST_WAITING):
        response = wait(api, payment, "wait=30", new_name("key"))

    assert response.status_code == 202
    assert "Preference-Applied" not in response


# --- What could go wrong in between
def test_a_payment_that_is_approved_while_a_page_is_read_is_in_it(api, agent, payment, monkeypatch):
    held = api.pay(payment).json()

    def approve_then_read(*args, **options):
        approve(held["id"])
        return read(*args, **options)

    read = read_payment_page
    monkeypatch.setattr("payments.api.read_views.read_payment_page", approve_then_read)

    assert [one["id"] for one in api.get(LIST, {"agentId": agent.id}).json()["data"]] == [held["id"]]


def test_a_payment_that_was_answered_and_is_not_decided_yet_still_waits(api, payment):
    held = api.pay(payment).json()
    answer_hold(held["id"], HoldAnswer.DECLINE, by="fiona", reason="No")

    assert api.get(f"/v1/payments/{held['id']}").json()["status"] == "pending_approval"


def test_agents_of_other_policies_are_never_answered_so(api, payment):
    agent, service = make_agent(), make_service()

    paid = api.pay({**payment, "agentId": agent.id, "service": service.id})

    assert paid.status_code == 201
    assert list(paid.json()) == ANSWERED
    assert list(api.get(paid["Location"]).json()) == MEMBERS
