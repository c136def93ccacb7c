"""Real answers, refusals and events fit the OpenAPI document."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from foundation.kernel.times import utc_now
from ledger.models import HoldAnswer
from payments.environment import payment_environment
from payments.holding.answering import answer_hold
from payments.holding.finishing import finish_hold
from policy.webhook_keys import sign_webhook
from services.models import WebhookEvent
from services.webhooks.operations import send_test_event
from services.webhooks.signatures import sign_headers
from staff.kinds import make
from tests.support.factories import decide, make_agent, make_service, new_address, new_name
from tests.support.openapi_document import PAYMENT, at, check, examples_of, validate

PLAIN = {"/healthz", "/readyz", "/.well-known/allowance-keys.json"}


def test_a_real_payment_fits_the_document(api, document, payment):
    asked = {**payment, "metadata": {"order": 7}}
    check(document, at(document, PAYMENT)["requestBody"]["content"]["application/json"]["schema"], asked)
    key = new_name("key")

    first, again = api.pay(asked, key), api.pay(asked, key)
    shown = api.get(first["Location"])

    for answer in (first, again):
        assert_documented(document, PAYMENT, answer, 201)
    assert_documented(document, ("/v1/payments/{id}", "get"), shown, 200)
    for path, answer in (
        ("/v1/payments/{id}/proof", api.get(f"{first['Location']}/proof")),
        ("/v1/payments", api.get("/v1/payments", {"agentId": payment["agentId"], "idempotencyKey": key})),
        ("/v1/logs/{id}", api.get(f"/v1/logs/{shown.json()['logId']}")),
        ("/v1/services", api.get("/v1/services", {"agentId": payment["agentId"], "limit": 1})),
        ("/v1/services/{id}", api.get(f"/v1/services/{payment['service']}")),
        ("/v1/me", api.get("/v1/me")),
    ):
        assert_documented(document, (path, "get"), answer, 200)


def test_a_real_budget_fits_the_document(api, document, agent):
    assert_documented(document, ("/v1/agents/{id}/budget", "get"), api.get(f"/v1/agents/{agent.id}/budget"), 200)


def test_a_real_registration_fits_the_document(api, document):
    body = {"id": new_name("service"), "name": "A", "recipient": f"base:{new_address()}", "asset": "USDC"}

    assert_documented(document, ("/v1/services", "post"), api.post("/v1/services", body), 201)
    assert_documented(document, ("/v1/services", "post"), api.post("/v1/services", {**body, "webhookUrl": None}), 200)


def test_a_real_log_page_fits_the_document(api, document, payment):
    api.pay(payment)
    api.pay({**payment, "service": "nobody"})

    page = api.get("/v1/logs", {"agentId": payment["agentId"], "limit": "1"})

    assert page.json()["nextCursor"]
    assert_documented(document, ("/v1/logs", "get"), page, 200)
    next_page = api.get("/v1/logs", {"agentId": payment["agentId"], "limit": "1", "cursor": page.json()["nextCursor"]})
    assert next_page.json()["nextCursor"] is None
    assert_documented(document, ("/v1/logs", "get"), next_page, 200)


REFUSED = {
    "a number for an amount": (400, {"amount": 1}),
    "an unknown agent": (404, {"agentId": "nobody"}),
    "an unknown service": (403, {"service": "nobody"}),
    "another asset": (400, {"asset": "SOL"}),
    "too much for one payment": (422, {"amount": "11"}),
    "more than a day's limit": (422, {"amount": "51"}),
    "more than a week's limit": (422, {"amount": "101"}),
    "more than the balance": (422, {"amount": "1001"}),
}


@pytest.mark.parametrize(("status", "change"), REFUSED.values(), ids=REFUSED.keys())
def test_a_real_refusal_has_the_members_of_its_example(api, document, payment, status, change):
    response = api.pay({**payment, **change})

    assert_documented(document, PAYMENT, response, status)
    real = response.json()["error"]
    assert members_of(real) in [
        members_of(body["error"]) for shown, body in examples_of(at(document, PAYMENT)) if shown == str(status)
    ]


def test_real_refusals_of_keys_and_addresses_are_those_of_the_examples(api, anonymous, client_of, document, payment):
    bound = client_of(agent=make_agent(), scopes=["payments"])
    answers = [
        (PAYMENT, anonymous.pay(payment)),
        (PAYMENT, api.get("/v1/payments/request")),
        (PAYMENT, api.post("/v1/payments/request", b"{", idempotency_key="k")),
        (PAYMENT, api.post("/v1/payments/request", payment, content_type="text/plain", idempotency_key="k")),
        (PAYMENT, api.post("/v1/payments/request", b" " * 65537, idempotency_key="k")),
        (PAYMENT, api.post("/v1/payments/request", payment)),
        (PAYMENT, bound.pay(payment)),
        (("/v1/services", "post"), bound.post("/v1/services", {})),
        (("/v1/payments/{id}", "get"), api.get("/v1/payments/pay_nothing")),
        (("/v1/payments/{id}/proof", "get"), api.get("/v1/payments/pay_nothing/proof")),
        (("/v1/payments", "get"), api.get("/v1/payments", {"idempotencyKey": "order-1234"})),
        (
            ("/v1/payments", "get"),
            api.get("/v1/payments", {"status": "paid", "amount": "-1", "since": "yesterday", "limit": "0"}),
        ),
        (("/v1/payments", "get"), api.get("/v1/payments", {"cursor": "damaged"})),
        (("/v1/payments", "get"), bound.get("/v1/payments", {"agentId": payment["agentId"]})),
        (("/v1/services", "get"), bound.get("/v1/services", {"agentId": payment["agentId"]})),
        (("/v1/services", "get"), api.get("/v1/services", {"limit": "0"})),
        (("/v1/services/{id}", "get"), bound.get("/v1/services/nobody")),
        (("/v1/logs/{id}", "get"), api.get("/v1/logs/log_nothing")),
        (("/v1/logs/{id}", "get"), bound.get("/v1/logs/log_nothing")),
        (("/v1/me", "get"), anonymous.get("/v1/me")),
        (("/v1/agents/{id}/budget", "get"), api.get("/v1/agents/nobody/budget")),
        (("/v1/logs", "get"), api.get("/v1/logs", {"limit": "0", "result": "refused"})),
        (("/v1/logs", "get"), api.get("/v1/logs", {"cursor": "damaged"})),
    ]

    for where, response in answers:
        assert_documented(document, where, response, response.status_code)
        assert (str(response.status_code), response.json()) in examples_of(at(document, where))


def test_a_pending_service_is_refused_as_in_its_example(api, document, payment):
    response = api.pay({**payment, "service": make_service(approved=False).id})

    assert_documented(document, PAYMENT, response, 403)
    messages = [body["error"]["message"] for shown, body in examples_of(at(document, PAYMENT)) if shown == "403"]
    assert response.json()["error"]["message"] in messages


def test_real_events_and_their_headers_fit_the_document(api, document, payment):
    service = make_service(webhook_url="https://payee.example.com/told")
    api.pay({**payment, "service": service.id, "metadata": {"order": 7}})
    api.pay({**payment, "service": service.id})
    send_test_event(service.id, by="ann")

    events = list(WebhookEvent.objects.filter(service=service))

    assert [event.type for event in events] == ["payment.approved", "payment.approved", "webhook.test"]
    for event in events:
        webhook = document["webhooks"][event.type]["post"]
        body = json.loads(event.payload)
        check(document, webhook["requestBody"]["content"]["application/json"]["schema"], body)
        assert body["data"].keys() == document["components"]["schemas"]["EventData"]["properties"].keys()
        headers = sign_headers(event.id, event.payload.encode(), utc_now(), [b"one", b"other"], sign_webhook)
        for parameter in webhook["parameters"]:
            check(document, parameter["schema"], headers[parameter["name"]])


def test_real_events_of_approvals_fit_the_document(document):
    agent = make_agent(approval_above=Decimal(0))
    make("agent.set_webhook", {"agent": agent.id, "url": "https://owner.example.com/told"}, by="ann", reason="")
    held = [str(decide(agent, make_service()).payment_id) for _ in range(2)]
    for payment_id, answer in zip(held, HoldAnswer, strict=True):
        answer_hold(payment_id, answer, by="fiona", reason="A reason")
        finish_hold(payment_id, replace(payment_environment(), wake=lambda _chain: None))

    events = list(WebhookEvent.objects.filter(agent=agent).order_by("pk"))

    assert [one.type.removeprefix("approval.") for one in events] == ["requested", "requested", "approved", "declined"]
    for event in events:
        content = document["webhooks"][event.type]["post"]["requestBody"]["content"]["application/json"]
        body = json.loads(event.payload)
        check(document, content["schema"], body)
        assert body["data"].keys() == document["components"]["schemas"]["ApprovalEventData"]["properties"].keys()


def test_the_plain_addresses_answer_as_documented(anonymous, document):
    for path in PLAIN:
        response = anonymous.get(path)
        assert_documented(document, (path, "get"), response, response.status_code)


def members_of(error):
    return (error["code"], error.get("rule"), sorted(error))


def assert_documented(document, where, response, status):
    assert response.status_code == status, response.content
    documented = at(document, where)["responses"][str(status)]
    validate(document, documented, response.json())
    told = {"Location", "Idempotent-Replayed", "WWW-Authenticate", "Retry-After", "X-Request-Id"}
    # DRF tells `Allow` with every answer; it is news only to who used another method.
    assert status != 405 or "Allow" in documented["headers"]
    assert {name for name in told if name in response} <= documented["headers"].keys()
