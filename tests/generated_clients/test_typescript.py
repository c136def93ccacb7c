"""The OpenAPI document by the judgement of TypeScript's tools, and our client for TypeScript: `clients/typescript`."""

import json
import os
import re

import pytest

from foundation.kernel.errors import (
    AgentNotFound,
    IdempotencyConflict,
    InvalidApiKey,
    InvalidRequest,
    PolicySignerUnavailable,
    RateLimited,
)
from payments.api.examples import REQUEST, policy_refusals, settled_payment
from payments.models import Payment
from tests.fuzz.cast import settling
from tests.generated_clients.api_answers import LOST, PAID, answer_of, refusal
from tests.generated_clients.programs import CLIENT, run, say
from tests.support.factories import make_agent, make_api_key, make_service
from tests.support.javascript import needs_node

pytestmark = [needs_node, pytest.mark.long(60)]

# What redocly warns of, and we mean: rule and operation.
MEANT = {
    # They take nothing from a client that could be refused.
    ("operation-4xx-response", "/healthz"),
    ("operation-4xx-response", "/readyz"),
    ("operation-4xx-response", "/.well-known/allowance-keys.json"),
}


def test_redocly_finds_nothing_but_what_is_meant(tools, served):
    said = run([tools / ".bin/redocly", "lint", served, "--extends", "recommended", "--format", "json"], is_ok=None)

    problems = json.loads(said[said.index("{") : said.rindex("}") + 1])["problems"]
    found = {(problem["ruleId"], place_of(problem)) for problem in problems}
    assert found == MEANT, json.dumps(problems, indent=1)[:10_000]


def test_the_types_are_those_of_the_document(tools, served, tmp_path):
    committed, fresh = CLIENT / "schema.d.ts", tmp_path / "schema.d.ts"

    _, warned = say([tools / ".bin/openapi-typescript", served, "--output", fresh])

    assert warned.strip() == "", warned  # it warns on the error output
    assert fresh.read_text() == committed.read_text(), f"The document has changed: cp {fresh} {committed}"


def test_what_is_committed_as_compiled_is_compiled_of_this_source(compiled):
    fresh = {path.name: path.read_text() for path in (compiled / "dist").iterdir() if path.is_file()}
    committed = {path.name: path.read_text() for path in (CLIENT / "dist").iterdir() if path.is_file()}

    assert fresh == committed, f"The source has changed: cp {compiled}/dist/*.* {CLIENT}/dist"


def test_the_example_pays_once_is_refused_and_waits_for_the_chain(compiled, servers, committed):
    agent, service = make_agent(balance="10000"), make_service()
    asked = {
        "ALLOWANCE_URL": servers.urls[0], "ALLOWANCE_KEY": make_api_key(agent=agent), "AGENT": agent.id,
        "SERVICE": service.id,
    }  # fmt: skip

    with settling():
        said = run(["node", compiled / "dist/examples/pay.js"], env={**os.environ, **asked})

    (payment,) = Payment.objects.filter(agent=agent)
    evaluated, lost, approved, refused, settled, spent = said.splitlines()
    assert evaluated == "would be approved; could still be paid today after it: 49.75"
    assert lost == "lost an answer: 201"
    assert approved == f"approved {payment.id}, spent today: 0.25"
    assert refused == "refused by under_weekly_limit (limit 100.00, remaining 99.75), go on with: new_key"
    assert re.fullmatch("settled in 0x[0-9a-f]{64}", settled)
    assert spent == "spent today: 0.25 of 50.00"


def test_every_attempt_at_a_payment_has_the_same_key_and_body(attempt):
    tried = attempt(
        "pay", [LOST, "{ half of it", refusal(PolicySignerUnavailable(retry_after_s=1)), PAID], key="order-7"
    )

    assert tried["result"] == PAID["body"]
    assert [request["key"] for request in tried["requests"]] == ["order-7"] * 4
    assert [request["body"] for request in tried["requests"]] == [REQUEST] * 4
    assert [request["authorization"] for request in tried["requests"]] == ["Bearer alw_key"] * 4


def test_each_payment_has_a_new_key_of_its_own_unless_one_is_given(attempt):
    keys = [attempt("pay", [LOST, PAID])["requests"] for _ in range(2)]

    assert len({request["key"] for requests in keys for request in requests}) == 2


def test_a_refusal_by_policy_is_not_repeated_and_says_when_it_would_be_none(attempt):
    (too_much,) = (error for error in policy_refusals() if error.details["rule"] == "under_max_payment")

    tried = attempt("pay", [refusal(too_much, retry_after_s=70)], key="order-8")

    assert tried["error"]["name"] == "PolicyRefused"
    assert tried["error"]["idempotencyKey"] == "order-8"
    assert tried["error"]["retryAfterS"] == 70
    assert len(tried["requests"]) == 1


def test_a_refusal_by_policy_names_the_agent_above_whose_limit_it_is(attempt):
    (above,) = (error for error in policy_refusals() if "level" in error.details)
    (own,) = (error for error in policy_refusals() if error.details["rule"] == "under_max_payment")

    tried = [attempt("pay", [refusal(error)])["error"]["level"] for error in (above, own)]

    assert tried == [{"agentId": "example-team", "policyRevision": "polrev_2"}, None]


def test_a_refusal_outside_the_allowed_time_is_one_by_policy_and_says_how_long_it_lasts(attempt):
    (too_late,) = (error for error in policy_refusals() if error.details["rule"] == "within_hours")

    tried = attempt("pay", [refusal(too_late)], key="order-8")["error"]

    assert (tried["name"], tried["code"]) == ("PolicyRefused", "outside_allowed_time")
    assert (tried["idempotencyKey"], tried["retryAfterS"]) == ("order-8", too_late.retry_after_s)
    assert tried["detail"]["allowedAt"] == "2026-05-15T07:00:00.000Z"


def test_a_503_that_names_its_rule_is_no_refusal_by_policy_for_its_key_is_good(attempt):
    unavailable = policy_refusals()[-1]
    tried = attempt("pay", [refusal(unavailable, retry_after_s=3600)], key="order-8")

    assert unavailable.details["rule"] == "policy_signer_available"
    assert (tried["error"]["name"], tried["error"]["idempotencyKey"]) == ("AllowanceError", "order-8")


@pytest.mark.parametrize(
    "error", [InvalidApiKey(), AgentNotFound(), IdempotencyConflict(), RateLimited(retry_after_s=3600)]
)
def test_what_another_attempt_would_not_change_soon_is_not_repeated(attempt, error):
    tried = attempt("pay", [refusal(error)])

    assert (tried["error"]["name"], tried["error"]["code"]) == ("AllowanceError", error.code)
    assert len(tried["requests"]) == 1


def test_the_message_of_a_request_that_is_not_valid_names_the_field(attempt):
    tried = attempt("pay", [refusal(InvalidRequest.of("amount", "Write 0.50."))])

    assert tried["error"]["message"].startswith("invalid_request: ")
    assert tried["error"]["message"].endswith(" amount: Write 0.50.")


def test_a_payment_without_any_answer_ends_with_the_key_to_ask_again_with(attempt):
    proxy = {"status": 502, "headers": {"Content-Type": "text/html"}, "body": "<h1>Bad gateway</h1>"}

    tried = attempt("pay", [LOST, proxy], key="order-9", attempts=2)

    assert tried["error"]["name"] == "NoAnswer"
    assert tried["error"]["idempotencyKey"] == "order-9"
    assert "502" in tried["error"]["message"]


@pytest.mark.parametrize(
    ("status", "ends_with"), [("settled", None), ("failed", "PaymentFailed"), ("approved", "NotSettledYet")]
)
def test_waiting_ends_with_the_payment_or_says_what_it_is(attempt, status, ends_with):
    on_its_way = {**settled_payment(), "status": "approved"}
    ended = {**on_its_way, "status": status}

    tried = attempt("waitSettled", [answer_of(200, on_its_way), LOST, *[answer_of(200, ended)] * 9])

    assert tried.get("error", {}).get("name") == ends_with
    assert (tried.get("result") or tried["error"]["payment"])["status"] == status
    assert tried["requests"][0]["path"] == f"/v1/payments/{ended['id']}"


def place_of(problem):
    """Name the path or the component that a problem is about."""
    _, kind, name, *_ = problem["location"][0]["pointer"].split("/")
    return name.replace("~1", "/") if kind == "paths" else f"{kind}/{name}"
