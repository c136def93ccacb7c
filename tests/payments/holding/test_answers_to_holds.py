"""What a person says, once, while a payment waits; and what the key that asked for it is answered before and after."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from ledger.models import Hold, HoldAnswer
from payments.holding.answering import answer_hold
from payments.holding.finishing import finish_holds
from payments.models import Payment
from policy.operations import pause_agent
from staff.models import AuditEntry
from tests.support.answers import error_of
from tests.support.factories import decide, make_service, new_name
from tests.support.holds import REASON, asks_above, decline, environment_at, finish, hold_of, say

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]
DOUBLE: dict[str, Any] = {"by": "ann", "reason": "Another reason"}


@pytest.fixture
def held():
    return decide(asks_above(), make_service(), "6")


@pytest.fixture
def agent(db):
    return asks_above()


@pytest.fixture
def asked(payment):
    return payment | {"amount": "6.00"}


def ask_twice(api: Any, asked: dict[str, Any]) -> tuple[Any, Any, str]:
    key = new_name("key")
    return api.pay(asked, key), api.pay(asked, key), key


# --- The key's stored answer ------------------------------------------------------------------------------------------
def test_the_same_key_answers_202_until_somebody_has_answered(api, asked):
    first, again, _ = ask_twice(api, asked)

    assert (first.status_code, again.status_code) == (202, 202)
    assert first.content == again.content
    assert again["Idempotent-Replayed"] == "true"
    said = first.json()
    assert (said["status"], said["tx"], said["rule"]) == ("pending_approval", None, "under_approval_limit")
    assert said["approvalExpiresAt"]
    assert Hold.objects.count() == 1


def test_the_same_key_answers_201_with_the_same_id_once_it_is_approved(api, asked):
    first, _, key = ask_twice(api, asked)
    answer_hold(first.json()["id"], HoldAnswer.APPROVE, by="fiona", reason=REASON)
    assert api.pay(asked, key).status_code == 202  # until a worker has decided it

    assert finish_holds(environment_at()) == 1

    outcome, again = api.pay(asked, key), api.pay(asked, key)
    assert (outcome.status_code, outcome.content) == (201, again.content)
    said = outcome.json()
    assert (said["id"], said["status"], said["createdAt"]) == (
        first.json()["id"],
        "approved",
        first.json()["createdAt"],
    )
    assert said["tx"]
    assert Payment.objects.get().id == said["id"]


def test_the_same_key_answers_why_once_it_is_declined(api, asked):
    first, _, key = ask_twice(api, asked)
    answer_hold(first.json()["id"], HoldAnswer.DECLINE, by="fiona", reason="Too much.")
    finish_holds(environment_at())

    error = error_of(api.pay(asked, key), 403, "approval_declined")

    assert error["message"] == "A person has declined this payment: Too much."
    assert "fiona" not in json.dumps(error)


def test_the_same_key_answers_the_rule_that_refused_what_was_approved(api, asked, agent):
    first, _, key = ask_twice(api, asked)
    answer_hold(first.json()["id"], HoldAnswer.APPROVE, by="fiona", reason=REASON)
    pause_agent(agent.id, by="ann")
    finish_holds(environment_at())

    assert error_of(api.pay(asked, key), 403, "agent_paused")["rule"] == "agent_active"


@pytest.mark.parametrize("ends", [None, *HoldAnswer])
def test_the_same_key_with_another_body_is_a_conflict_before_and_after(api, asked, ends):
    first, _, key = ask_twice(api, asked)
    if ends is not None:
        answer_hold(first.json()["id"], ends, by="fiona", reason=REASON)
        finish_holds(environment_at())

    error_of(api.pay(asked | {"amount": "7.00"}, key), 409, "idempotency_conflict")
    error_of(api.pay(asked | {"amount": "1.00"}, key), 409, "idempotency_conflict")


# --- One answer, while it waits ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(("first", "word"), [(HoldAnswer.APPROVE, "approved"), (HoldAnswer.DECLINE, "declined")])
@pytest.mark.parametrize("second", HoldAnswer)
@pytest.mark.parametrize("is_over", [False, True])
def test_a_second_answer_is_refused_with_the_first(held, first, word, second, is_over):
    say(held, first)
    if is_over:
        finish(held)

    with pytest.raises(OperationRefused, match=f"^fiona has {word} this payment already"):
        answer_hold(str(held.payment_id), second, **DOUBLE)

    assert hold_of(held).answered_by == "fiona"


@pytest.mark.parametrize("answer", HoldAnswer)
def test_what_has_expired_is_answered_no_more_whether_or_not_it_has_ended(answer):
    held = decide(asks_above(), make_service(), "6", at=utc_now() - timedelta(days=2))
    expires_at = hold_of(held).expires_at
    for ended in (False, True):
        if ended:
            finish(held, expires_at)
        with pytest.raises(OperationRefused, match="does not wait for approval any more"):
            say(held, answer, at=expires_at)
    assert hold_of(held).answer == ""


def test_what_ended_otherwise_is_answered_no_more(held):
    pause_agent(held.agent_id, by="ann")
    finish(held)

    with pytest.raises(OperationRefused, match="does not wait for approval any more"):
        say(held)


@pytest.mark.parametrize(
    ("by", "reason"), [("", "R"), (" ", "R"), ("fiona", ""), ("fiona", " \n"), ("fiona", "R" * 501)]
)
def test_an_answer_needs_an_author_and_a_reason(held, by, reason):
    with pytest.raises(OperationRefused):
        answer_hold(held.payment_id, HoldAnswer.APPROVE, by=by, reason=reason)
    assert hold_of(held).answer == ""


def test_a_payment_that_does_not_wait_cannot_be_answered():
    paid = decide(asks_above(), make_service(), "1")

    for one in (paid.payment_id, "pay_00000000000000000000000000"):
        with pytest.raises(OperationRefused, match="waits for approval"):
            answer_hold(str(one), HoldAnswer.APPROVE, by="fiona", reason=REASON)


@pytest.mark.parametrize(("answer", "action"), [("approve", "payment.approved"), ("decline", "payment.declined")])
def test_an_answer_is_in_the_audit(held, answer, action):
    say(held, HoldAnswer(answer))

    entry = AuditEntry.objects.get(subject=held.payment_id)
    assert (entry.action, entry.author, entry.reason) == (action, "fiona", REASON)
    assert entry.after is not None
    assert (entry.after["agentId"], entry.after["amount"]) == (held.agent_id, "6.00")


@pytest.mark.parametrize(("command", "word"), [("approve_payment", "approve"), ("decline_payment", "decline")])
def test_the_commands_answer_and_say_how_it_stands(held, capsys, command, word):
    call_command(command, held.payment_id, reason="By hand")

    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (said["id"], said["answer"], said["agentId"]) == (held.payment_id, word, held.agent_id)
    with pytest.raises(CommandError, match="this payment already"):
        call_command(command, held.payment_id, reason="Again")


def test_a_declined_payment_is_declined_whatever_becomes_of_its_agent(held):
    say(held, HoldAnswer.DECLINE)
    pause_agent(held.agent_id, by="ann")

    final = finish(held)

    assert final is not None
    assert final.explanation["message"] == f"A person has declined this payment: {REASON}"


def test_declining_frees_the_room_for_the_next_one():
    agent, service = asks_above(balance="6"), make_service()
    for _ in range(3):
        decline(decide(agent, service, "6"))
    assert Hold.objects.filter(agent=agent, final_entry__rule="approved_by_person").count() == 3
