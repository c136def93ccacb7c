"""Payments that a person has to approve, by the client for TypeScript: told, waited for, and paid once."""

import pytest

from payments.api.examples import REQUEST, declined, expired, held_payment, hold, settled_payment
from payments.deciding import answers
from payments.deciding.answers import answer
from tests.generated_clients.api_answers import LOST, PAID, answer_of, refusal
from tests.support.javascript import needs_node

pytestmark = [needs_node, pytest.mark.long(60)]
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
