"""`GET /v1/openapi.json` and `GET /v1/docs`: what they say is what the server does."""

import json
import re
from urllib.parse import urlsplit

import pytest
import requests
from jsonschema import Draft202012Validator, FormatChecker  # type: ignore[import-untyped]
from openapi_spec_validator import OpenAPIV31SpecValidator

from allowance.api.errors import STATUS
from allowance.api.fields import has_control_characters
from allowance.api.openapi_parts import AMOUNT, CONTROLS, SPACE
from allowance.kernel import money
from allowance.kernel.times import utc_now
from ledger import receipts
from payments.deciding.payment_events import EVENT_OF_STATUS
from policy.openapi import EXAMPLE_SIGNER
from policy.rules import RULES, SIGNER_RULE
from policy.signer import sign_webhook
from services import openapi as services_openapi
from services import serializers as services_serializers
from services.models import WebhookEvent
from services.webhooks.operations import TEST_EVENT, send_test_event
from services.webhooks.signatures import sign_headers
from tests.support.chains import PATIENCE_S
from tests.support.factories import make_agent, make_service, new_address, new_name

PAYMENT = ("/v1/payments/request", "post")
OPERATIONS = {
    PAYMENT: "requestPayment",
    ("/v1/payments/{id}", "get"): "getPayment",
    ("/v1/agents/{id}/budget", "get"): "getBudget",
    ("/v1/services", "post"): "registerService",
    ("/v1/logs", "get"): "listLogs",
}
PLAIN = {"/healthz", "/readyz", "/.well-known/allowance-keys.json"}
# The specification's tables, in its order.
FIELDS = {
    "PaymentRequest": ["agentId", "service", "amount", "asset", "reason", "metadata"],
    "Payment": ["id", "status", "amount", "asset", "service", "tx", "policyRevision", "spentToday", "createdAt"],
    "LogEntry": ["id", "agentId", "service", "amount", "asset", "result", "rule", "createdAt"],
    "Budget": [
        "agentId", "status", "asset", "balance", "spentToday", "spentThisWeek", "dailyLimit", "weeklyLimit",
        "maxPerPayment", "policyRevision",
    ],
    "Registration": ["id", "name", "recipient", "asset", "webhookUrl"],
    "Service": ["id", "name", "recipient", "asset", "status", "createdAt"],
    "LogPage": ["data", "nextCursor"],
}  # fmt: skip
# The error tables of the specification and the contract.
ERRORS = [
    (401, "invalid_api_key"),
    (403, "agent_paused"),
    (403, "service_not_approved"),
    (409, "idempotency_conflict"),
    (422, "budget_exceeded"),
    (503, "policy_signer_unavailable"),
    (400, "invalid_request"),
    (400, "idempotency_key_required"),
    (403, "insufficient_scope"),
    (404, "agent_not_found"),
    (404, "payment_not_found"),
    (404, "not_found"),
    (405, "method_not_allowed"),
    (413, "payload_too_large"),
    (415, "unsupported_media_type"),
    (429, "rate_limited"),
    (500, "internal_error"),
]


@pytest.fixture
def document(anonymous):
    return anonymous.get("/v1/openapi.json").json()


@pytest.mark.parametrize("path", ["/v1/openapi.json", "/v1/openapi.json/"])
def test_the_document_is_openapi_3_1_and_needs_no_key(anonymous, path):
    response = anonymous.get(path)

    assert response.status_code == 200
    assert response["Content-Type"] == "application/json"
    assert response.json()["openapi"].startswith("3.1.")
    OpenAPIV31SpecValidator(response.json()).validate()


@pytest.mark.parametrize("accept", ["text/html", "application/json", "*/*;q=0"])
@pytest.mark.parametrize("path", ["/v1/openapi.json", "/v1/docs"])
def test_what_a_client_accepts_makes_no_difference(anonymous, path, accept):
    assert anonymous.get(path, accept=accept).status_code == 200


@pytest.mark.parametrize("path", ["/v1/openapi.json", "/v1/docs"])
def test_another_method_is_refused_in_the_envelope(anonymous, path):
    response = anonymous.post(path, {})

    assert (response.status_code, response.json()["error"]["code"]) == (405, "method_not_allowed")


def test_the_document_is_generated_once(anonymous, monkeypatch):
    first = anonymous.get("/v1/openapi.json").content
    monkeypatch.setattr("allowance.api.openapi_views.SchemaGenerator", None)

    assert anonymous.get("/v1/openapi.json").content == first


@pytest.mark.parametrize("path", ["/v1/docs", "/v1/docs/"])
def test_the_page_needs_no_key_and_loads_nothing_from_elsewhere(anonymous, path):
    response = anonymous.get(path)
    page = response.content.decode()

    assert response.status_code == 200
    assert "text/html" in response["Content-Type"]
    assert "/v1/openapi.json" in page
    assert '"validatorUrl": null' in page
    addresses = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert addresses
    assert [address for address in addresses if urlsplit(address).netloc] == []


def test_what_the_page_loads_is_served_with_debug_off(committed, servers):
    page = requests.get(f"{servers.urls[0]}/v1/docs", timeout=PATIENCE_S).text

    for address in re.findall(r'(?:src|href)="([^"]+)"', page):
        assert requests.get(servers.urls[0] + address, timeout=PATIENCE_S).status_code == 200


def test_every_operation_is_there_under_a_clean_path(document):
    found = {
        (path, method): operation["operationId"]
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path not in PLAIN
    }

    assert found == OPERATIONS
    assert document["paths"].keys() - {path for path, _ in OPERATIONS} == PLAIN


def test_every_operation_has_a_summary_a_tag_and_two_ways_to_send_a_key(document):
    for operation in operations(document):
        assert operation["summary"]
        assert len(operation["tags"]) == 1
        assert [*operation["security"][0], *operation["security"][1]] == ["bearerKey", "headerKey"]


@pytest.mark.parametrize(("component", "fields"), FIELDS.items())
def test_properties_are_those_of_the_specification_in_its_order(document, component, fields):
    properties = list(document["components"]["schemas"][component]["properties"])

    assert properties[: len(fields)] == fields
    assert component == "LogEntry" or properties == fields


def test_a_log_entry_has_the_members_of_a_receipt(document):
    assert tuple(document["components"]["schemas"]["LogEntry"]["properties"]) == receipts.MEMBERS


def test_what_may_be_left_out_of_a_request(document):
    schemas = document["components"]["schemas"]

    assert FIELDS["PaymentRequest"] == [*sorted_as(FIELDS["PaymentRequest"], schemas["PaymentRequest"]), "metadata"]
    assert FIELDS["Registration"] == [*sorted_as(FIELDS["Registration"], schemas["Registration"]), "webhookUrl"]


def test_patterns_are_those_of_the_code(document):
    assert AMOUNT["pattern"] == f"^{money._AMOUNT.pattern}$"
    assert services_openapi._ID["pattern"] == f"^{services_serializers._SERVICE_ID.pattern}$"
    assert document["components"]["schemas"]["PolicyRefusal"]["properties"]["error"]["properties"]["rule"]["enum"] == [
        *(rule.name for rule in RULES),
        SIGNER_RULE.name,
    ]


def test_space_and_controls_are_those_of_the_code():
    letters = [chr(code) for code in range(0x110000)]

    assert {letter for letter in letters if not letter.strip()} == set(re.findall(f"[{SPACE}]", "".join(letters)))
    assert {letter for letter in letters if has_control_characters(letter)} == set(
        re.findall(f"[{CONTROLS}]", "".join(letters))
    )


def test_the_error_tables_are_the_whole_of_the_codes():
    assert {(status, error.code) for error, status in STATUS.items()} == set(ERRORS)


def test_nothing_stands_beside_a_reference_and_nothing_is_combined(document):
    # Generators of clients drop such models, and do not say so.
    def faults(node, path=()):
        if isinstance(node, dict) and (("$ref" in node and len(node) > 1) or "allOf" in node):
            yield path
        members = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for name, inner in members:
            yield from faults(inner, (*path, name))

    assert list(faults(document)) == []


@pytest.mark.parametrize(("status", "code"), ERRORS)
def test_each_row_of_the_error_tables_has_an_example(document, status, code):
    found = [
        (shown_status, body["error"]["message"])
        for operation in operations(document)
        for shown_status, body in examples_of(operation)
        if body.get("error", {}).get("code") == code
    ]

    assert found
    assert {shown_status for shown_status, _ in found} == {str(status)}
    assert all(message for _, message in found)


def test_a_payment_may_be_refused_with_every_code_of_the_specification(document):
    shown = {body["error"]["code"] for _, body in examples_of(at(document, PAYMENT)) if "error" in body}

    assert {code for _, code in ERRORS[:6]} <= shown


def test_every_rule_has_an_example_of_its_refusal(document):
    shown = [body["error"].get("rule") for _, body in examples_of(at(document, PAYMENT)) if "error" in body]

    assert set(shown) - {None} == {*(rule.name for rule in RULES), SIGNER_RULE.name}


def test_every_example_fits_its_schema(document):
    for operation in operations(document):
        for status, body in examples_of(operation):
            validate(document, operation["responses"][status], body)
        for content in operation.get("requestBody", {}).get("content", {}).values():
            for example in content["examples"].values():
                check(document, content["schema"], example["value"])


@pytest.mark.parametrize("entry", [0, 1])
def test_the_receipts_in_the_document_can_be_verified(document, entry):
    page = next(body for status, body in examples_of(document["paths"]["/v1/logs"]["get"]) if status == "200")
    keys = document["paths"]["/.well-known/allowance-keys.json"]["get"]["responses"]["200"]["content"]

    receipts.verify(page["data"][entry], keys["application/json"]["examples"]["Keys"]["value"]["keys"])


def test_the_installations_own_key_signs_no_example(anonymous, document):
    published = anonymous.get("/.well-known/allowance-keys.json").json()["keys"]

    assert EXAMPLE_SIGNER.key_id not in [key["kid"] for key in published]
    assert [key["kid"] for key in published if key["kid"] in json.dumps(document)] == []


def test_a_real_payment_fits_the_document(api, document, payment):
    asked = {**payment, "metadata": {"order": 7}}
    check(document, at(document, PAYMENT)["requestBody"]["content"]["application/json"]["schema"], asked)
    key = new_name("key")

    first, again = api.pay(asked, key), api.pay(asked, key)
    shown = api.get(first["Location"])

    for answer in (first, again):
        assert_documented(document, PAYMENT, answer, 201)
    assert_documented(document, ("/v1/payments/{id}", "get"), shown, 200)


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


def test_every_event_is_described_with_its_headers(document):
    assert document["webhooks"].keys() == {*EVENT_OF_STATUS.values(), TEST_EVENT}
    assert document["components"]["schemas"]["Event"]["properties"]["type"]["enum"] == [*document["webhooks"]]
    for webhook in document["webhooks"].values():
        names = [parameter["name"] for parameter in webhook["post"]["parameters"]]
        assert names == ["webhook-id", "webhook-timestamp", "webhook-signature"]


def test_every_example_of_an_event_fits_its_schema(document):
    for name in EVENT_OF_STATUS.values():
        content = document["webhooks"][name]["post"]["requestBody"]["content"]["application/json"]
        (example,) = content["examples"].values()
        assert example["value"]["type"] == name
        check(document, content["schema"], example["value"])


def test_real_events_and_their_headers_fit_the_document(api, document, payment):
    service = make_service(webhook_url="https://payee.example.com/told")
    api.pay({**payment, "service": service.id, "metadata": {"order": 7}})
    api.pay({**payment, "service": service.id})
    send_test_event(service.id)

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


def test_the_plain_addresses_answer_as_documented(anonymous, document):
    for path in PLAIN:
        response = anonymous.get(path)
        assert_documented(document, (path, "get"), response, response.status_code)


def operations(document):
    return [at(document, where) for where in OPERATIONS]


def at(document, where):
    path, method = where
    return document["paths"][path][method]


def examples_of(operation):
    return [
        (status, example["value"])
        for status, response in operation["responses"].items()
        for example in response["content"]["application/json"]["examples"].values()
    ]


def sorted_as(names, schema):
    return sorted(schema["required"], key=names.index)


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


def validate(document, documented, body):
    check(document, documented["content"]["application/json"]["schema"], body)


def check(document, schema, value):
    rooted = {**schema, "components": document["components"]}
    faults = Draft202012Validator(rooted, format_checker=FormatChecker()).iter_errors(value)
    assert [f"{fault.json_path}: {fault.message[:200]}" for fault in faults] == []
