"""The examples of the OpenAPI document: every refusal and event has one, and each fits its schema."""

import json
import re

import jwt
import pytest

from foundation.api.errors import STATUS
from ledger import receipts
from payments.deciding.approval_events import EVENT_OF_APPROVAL
from payments.deciding.payment_events import EVENT_OF_STATUS
from policy.holding_rules import PERSON_RULE
from policy.openapi import EXAMPLE_SIGNER
from policy.rules import RULES, SIGNER_RULE
from services.webhooks.trial_events import TEST_EVENT
from tests.documents.pages import ROOT
from tests.support.openapi_document import PAYMENT, at, check, examples_of, operations, validate

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
    (403, "service_not_payable"),
    (403, "outside_allowed_time"),
    (403, "approval_declined"),
    (404, "payment_not_found"),
    (404, "service_not_found"),
    (404, "log_entry_not_found"),
    (404, "not_found"),
    (405, "method_not_allowed"),
    (413, "payload_too_large"),
    (415, "unsupported_media_type"),
    (429, "rate_limited"),
    (500, "internal_error"),
]


def test_the_error_tables_are_the_whole_of_the_codes():
    assert {(status, error.code) for error, status in STATUS.items()} == set(ERRORS)


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


def test_every_rule_that_refuses_has_an_example_of_its_refusal(document):
    refusing = [rule.name for rule in (*RULES, PERSON_RULE, SIGNER_RULE) if not rule.holds]
    shown = [body["error"].get("rule") for _, body in examples_of(at(document, PAYMENT)) if "error" in body]

    assert set(shown) - {None} == set(refusing)


def test_every_example_fits_its_schema(document):
    for operation in operations(document):
        for status, body in examples_of(operation):
            validate(document, operation["responses"][status], body)
        for content in operation.get("requestBody", {}).get("content", {}).values():
            for example in content["examples"].values():
                check(document, content["schema"], example["value"])


def test_whom_the_examples_are_about_exists_nowhere_else(document):
    """The page of the document sends an example at a click: it must meet nobody's agent, payee or key."""
    registered = at(document, ("/v1/services", "post"))["requestBody"]["content"]["application/json"]["examples"]
    keys = [one for one in at(document, PAYMENT)["parameters"] if one.get("name") == "Idempotency-Key"]
    names = re.findall(r'"(?:agentId|service|aud)": ?"([^"$]+)"', json.dumps(document))
    names += [registered["Registration"]["value"]["id"]]
    names += [example["value"] for one in keys for example in one["examples"].values()]

    assert {"example-agent", "example-market-data", "example-report-wk-20"} <= {*names}
    assert {name for name in names if not name.startswith("example-")} == set()
    made = [path.read_text() for folder in ("demo", "embedded") for path in (ROOT / "workshop" / folder).rglob("*.py")]
    assert any("agent-research" in text for text in made)
    assert not any("example-" in text for text in made)


@pytest.mark.parametrize("entry", [0, 1])
def test_the_receipts_in_the_document_can_be_verified(document, entry):
    page = next(body for status, body in examples_of(document["paths"]["/v1/logs"]["get"]) if status == "200")
    keys = document["paths"]["/.well-known/allowance-keys.json"]["get"]["responses"]["200"]["content"]

    receipts.verify(page["data"][entry], keys["application/json"]["examples"]["Keys"]["value"]["keys"])


def test_the_proof_in_the_document_can_be_verified_and_is_of_the_payment_that_it_shows(document):
    shown = examples_of(document["paths"]["/v1/payments/{id}/proof"]["get"])
    (proof,) = (body for status, body in shown if status == "200")
    payments = [b for status, b in examples_of(document["paths"]["/v1/payments/{id}"]["get"]) if status == "200"]
    (payment,) = (one for one in payments if one["status"] == "settled")
    key = jwt.PyJWK(EXAMPLE_SIGNER.public_keys()[0])

    claims = jwt.decode(proof["proof"], key, algorithms=["EdDSA"], audience=payment["service"], issuer="allowance")

    assert (claims["sub"], claims["tx"], claims["status"]) == (payment["id"], payment["finalTx"], payment["status"])
    assert claims["escrowId"] == payment["escrowId"]


def test_the_installations_own_key_signs_no_example(anonymous, document):
    published = anonymous.get("/.well-known/allowance-keys.json").json()["keys"]

    assert EXAMPLE_SIGNER.key_id not in [key.get("kid") for key in published]
    assert [key["x"] for key in published if key["x"] in json.dumps(document)] == []


def test_every_event_is_described_with_its_headers(document):
    to_payees, to_owners = [*EVENT_OF_STATUS.values(), TEST_EVENT], [*EVENT_OF_APPROVAL.values()]
    assert [*document["webhooks"]] == [*to_payees, *to_owners]
    assert document["components"]["schemas"]["EventType"]["enum"] == to_payees
    assert document["components"]["schemas"]["ApprovalEventType"]["enum"] == to_owners
    for webhook in document["webhooks"].values():
        names = [parameter["name"] for parameter in webhook["post"]["parameters"]]
        assert names == ["webhook-id", "webhook-timestamp", "webhook-signature"]


def test_every_example_of_an_event_fits_its_schema(document):
    for name in (*EVENT_OF_STATUS.values(), *EVENT_OF_APPROVAL.values()):
        content = document["webhooks"][name]["post"]["requestBody"]["content"]["application/json"]
        (example,) = content["examples"].values()
        assert example["value"]["type"] == name
        check(document, content["schema"], example["value"])
