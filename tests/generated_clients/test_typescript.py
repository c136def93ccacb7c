"""The OpenAPI document by the judgement of TypeScript's tools, and our client for TypeScript: `clients/typescript`."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from chains.contracts.node_packages import run_script
from foundation.api.errors import STATUS, envelope, headers
from foundation.kernel.errors import (
    AgentNotFound,
    IdempotencyConflict,
    InvalidApiKey,
    InvalidRequest,
    PolicySignerUnavailable,
    RateLimited,
)
from payments.api.examples import (
    REQUEST,
    approve,
    declined,
    expired,
    held_payment,
    hold,
    policy_refusals,
    settled_payment,
)
from payments.deciding import answers
from payments.deciding.answers import answer
from payments.models import Payment
from tests.documents.pages import blocks_of, pages
from tests.fuzz.cast import settling
from tests.support.factories import make_agent, make_api_key, make_service
from tests.support.fake_chain import PATIENCE_S
from tests.support.javascript import install_or_skip, needs_node
from workshop.localnet.folder import ROOT

pytestmark = [needs_node, pytest.mark.long(60)]

CLIENT = ROOT / "clients/typescript"
LOST = None


def answer_of(status, body, **headers):
    return {"status": status, "headers": {"Content-Type": "application/json", **headers}, "body": body}


def refusal(error, retry_after_s=None):
    """Answer as the API does."""
    waits = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
    return answer_of(STATUS[type(error)], envelope(error), **{**headers(error), **waits})


PAID = answer_of(201, answer(approve()))
# What redocly warns of, and we mean: rule and operation.
MEANT = {
    # They take nothing from a client that could be refused.
    ("operation-4xx-response", "/healthz"),
    ("operation-4xx-response", "/readyz"),
    ("operation-4xx-response", "/.well-known/allowance-keys.json"),
}


@pytest.fixture(scope="module")
def tools():
    """The folder of the npm packages."""
    return install_or_skip(CLIENT) / "node_modules"


@pytest.fixture
def attempt(compiled):
    """Call the client, which is given these answers in turn; return its result or error, and what it sent."""

    def call(method, given, **options):
        question = {"method": method, "answers": given, "request": REQUEST, **options}
        return run_script(Path(__file__).parent / "attempts.mjs", compiled / "dist/index.js", question=question)

    return call


@pytest.fixture(scope="module")
def compiled(tools, tmp_path_factory):
    """A copy of the client, compiled, with its example and what the pages show."""
    folder = tmp_path_factory.mktemp("typescript") / CLIENT.name
    shutil.copytree(CLIENT, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    (folder / "node_modules").symlink_to(tools)
    written = [block for page in pages() for block in blocks_of(page) if '"allowance-client"' in block.text]
    for number, block in enumerate(written):
        (folder / f"examples/page{number}.ts").write_text(block.text)
    for project in (".", "examples"):
        run([tools / ".bin/tsc", "--project", project], cwd=folder)
    return folder


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


def run(command, *, is_ok=True, cwd=None, env=None):
    """Run a program; return what it wrote. `is_ok` None: it may fail."""
    return say(command, is_ok=is_ok, cwd=cwd, env=env)[0]


def say(command, *, is_ok=True, cwd=None, env=None):
    """Run a program; return what it wrote to its output and to its error output."""
    settings = {
        **(env or os.environ),
        "REDOCLY_TELEMETRY": "off",
        "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true",
        "NO_COLOR": "1",
    }
    done = subprocess.run(
        command, cwd=cwd, env=settings, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
        timeout=6 * PATIENCE_S,
    )  # fmt: skip
    assert is_ok is None or done.returncode == 0, done.stdout + done.stderr
    return done.stdout, done.stderr


# --- Payments that a person has to approve
HELD, WAITS = answer_of(202, answer(hold())), answer_of(200, held_payment())
APPROVED = answer_of(200, {**settled_payment(), "status": "approved"})
ENDS = [declined(), expired()]
NOT_APPROVED = [answer_of(200, held_payment(end)) for end in ENDS]


@pytest.mark.parametrize("method", ["pay", "payDemand"])
def test_a_payment_that_a_person_has_to_approve_is_told_at_once(attempt, method):
    tried = attempt(method, [HELD], key="order-7")

    told = tried["result"] if method == "pay" else tried["error"]["payment"]
    assert (told["status"], told["tx"]) == ("pending_approval", None)
    assert told["approvalExpiresAt"] == "2026-05-15T18:42:11.123Z"
    if method == "payDemand":  # there is nothing to send its payee
        assert (tried["error"]["name"], tried["error"]["idempotencyKey"]) == ("NotDecidedYet", "order-7")


@pytest.mark.parametrize("method", ["pay", "payDemand"])
def test_a_payment_that_waits_is_waited_for_and_its_key_tells_what_has_become_of_it(attempt, method):
    tried = attempt(method, [HELD, WAITS, LOST, APPROVED, PAID], key="order-7", decidedS=20)

    assert tried["result"] == PAID["body"]
    asked = [request for request in tried["requests"] if request["body"] is not None]
    assert [(request["key"], request["body"]) for request in asked] == [("order-7", REQUEST)] * 2
    assert {one["path"] for one in tried["requests"] if one["body"] is None} == {f"/v1/payments/{HELD['body']['id']}"}


@pytest.mark.parametrize(("state", "end"), [*zip(NOT_APPROVED, ENDS, strict=True)], ids=["declined", "expired"])
def test_a_payment_that_nobody_approves_is_thrown_with_the_keys_own_answer(attempt, state, end):
    refused = refusal(answers.refusal(end))

    tried = attempt("pay", [HELD, state, refused], key="order-7", decidedS=20)["error"]

    assert (tried["name"], tried["code"]) == ("ApprovalDeclined", "approval_declined")
    assert (tried["idempotencyKey"], tried["detail"]["rule"]) == ("order-7", "approved_by_person")
    assert tried["detail"]["message"] == state["body"]["declineReason"]


@pytest.mark.parametrize(
    ("states", "ends_with"),
    [
        ([APPROVED], None),
        ([NOT_APPROVED[0]], "ApprovalDeclined"),
        ([NOT_APPROVED[1]], "ApprovalDeclined"),
        ([WAITS] * 8, "NotDecidedYet"),
    ],
)
def test_waiting_for_a_person_ends_with_the_payment_or_says_what_it_is(attempt, states, ends_with):
    tried = attempt("waitUntilDecided", [WAITS, *states])

    assert tried.get("error", {}).get("name") == ends_with
    told = tried.get("result") or tried["error"]["payment"]
    assert told["status"] == states[0]["body"]["status"]
