"""`GET /v1/logs`: its entries and filters."""

import json
import re

import pytest

from foundation.api.cursors import write_cursor
from ledger.models import LogEntry
from payments.models import Payment
from policy.operations import pause_agent
from tests.support.answers import INSTANT, ULID, error_of, faulty_params
from tests.support.factories import decide, make_agent
from tests.support.log_reads import fill, ids

PATH = "/v1/logs"
MEMBERS = [
    "id", "agentId", "service", "amount", "asset", "result", "rule", "createdAt",
    "reason", "metadata", "policyRevision", "paymentId", "tx", "explanation",
    "hash", "previousHash", "signature", "keyId",
]  # fmt: skip


def test_an_approved_entry_has_the_members_of_the_specification_first(api, agent, payment):
    answer = api.pay({**payment, "amount": "0.50", "metadata": {"b": 1, "a": "\u00fc"}}).json()

    response = api.get(PATH, {"agentId": agent.id})

    assert list(response.json()) == ["data", "nextCursor"]
    (entry,) = response.json()["data"]
    assert list(entry) == MEMBERS
    assert re.fullmatch(f"log_{ULID}", entry["id"])
    assert INSTANT.fullmatch(entry["createdAt"])
    expected = {
        "agentId": agent.id, "service": payment["service"], "amount": "0.50", "asset": "USDC", "result": "approved",
        "rule": "under_max_payment", "createdAt": answer["createdAt"], "reason": "A test",
        "metadata": {"b": 1, "a": "\u00fc"}, "policyRevision": "polrev_1", "paymentId": answer["id"],
        "tx": answer["tx"],
    }  # fmt: skip
    assert {name: entry[name] for name in expected} == expected
    assert entry["explanation"]["message"]
    assert entry["explanation"]["escrowId"] == Payment.objects.get(pk=answer["id"]).escrow_id


def test_a_blocked_entry_explains_itself_and_names_no_payment(api, agent, payment):
    error = error_of(api.pay({**payment, "amount": "10.01"}), 422, "budget_exceeded")

    (entry,) = api.get(PATH, {"agentId": agent.id}).json()["data"]

    assert list(entry) == MEMBERS
    assert (entry["id"], entry["result"], entry["rule"]) == (error["logId"], "blocked", "under_max_payment")
    assert (entry["paymentId"], entry["tx"], entry["metadata"]) == (None, None, None)
    assert re.fullmatch("[0-9a-f]{64}", entry["explanation"].pop("request"))
    assert entry["explanation"] == {
        "message": error["message"], "limit": "10.00", "requested": "10.01", "remaining": "10.00", "allowedAt": None,
    }  # fmt: skip


def test_entries_are_listed_newest_first(api, agent, service):
    made = fill(agent, service, 6)

    response = api.get(PATH, {"agentId": agent.id})

    assert ids(response) == made
    assert response.json()["nextCursor"] is None
    times = [entry["createdAt"] for entry in response.json()["data"]]
    assert times == sorted(times, reverse=True)


def test_what_is_not_a_decision_is_not_in_the_log(api, anonymous, agent, payment):
    key = "once"
    api.pay(payment, key)
    api.pay(payment, key)
    api.pay({**payment, "amount": "2"}, key)
    api.pay({**payment, "amount": 1})
    api.pay({**payment, "agentId": "nobody"})
    anonymous.pay(payment)
    api.post("/v1/payments/request", payment)

    assert len(ids(api.get(PATH, {"agentId": agent.id}))) == 1


# --- Filters
def test_an_agent_without_entries_has_none(api, agent):
    assert api.get(PATH, {"agentId": agent.id}).json() == {"data": [], "nextCursor": None}


def test_the_log_of_all_agents_holds_every_agents_entries(api, agent, service):
    other = make_agent()
    made = [decide(who, service).id for who in (agent, other, agent)]

    assert set(ids(api.get(PATH))) >= set(made)
    assert ids(api.get(PATH)) == sorted(ids(api.get(PATH)), reverse=True)
    assert ids(api.get(PATH, {"agentId": other.id})) == [made[1]]


@pytest.mark.parametrize("result", ["approved", "blocked"])
def test_a_result_restricts_the_log(api, agent, service, result):
    made = fill(agent, service, 9)

    response = api.get(PATH, {"agentId": agent.id, "result": result})

    assert {entry["result"] for entry in response.json()["data"]} == {result}
    assert ids(response) == [name for name in made if LogEntry.objects.get(pk=name).result == result]
    assert set(ids(response)) <= set(ids(api.get(PATH, {"result": result})))


@pytest.mark.parametrize("result", ["", "Approved", "BLOCKED", "failed", "approved,blocked", "1", "null", "\u00fc"])
def test_an_unknown_result_is_400(api, result):
    assert faulty_params(api.get(PATH, {"result": result})) == ["result"]


def test_a_503_is_in_the_log_as_blocked(api, agent, payment):
    pause_agent(agent.id, by="ann")
    api.pay(payment)

    (entry,) = api.get(PATH, {"agentId": agent.id, "result": "blocked"}).json()["data"]
    assert entry["rule"] == "agent_active"


def test_a_decision_is_found_by_the_key_of_its_request(api, client_of, agent, service, payment):
    other = make_agent()
    mine, theirs = decide(agent, service, key="order-1"), decide(other, service, key="order-1")
    refused = error_of(api.pay({**payment, "amount": "11"}, 'or"der-2'), 422, "budget_exceeded")
    by_key = {"agentId": agent.id, "idempotencyKey": "order-1"}

    assert ids(api.get(PATH, by_key)) == ids(api.get(PATH, {**by_key, "idempotencyKey": '"order-1"'})) == [mine.id]
    assert ids(api.get(PATH, {"agentId": agent.id, "idempotencyKey": 'or"der-2'})) == [refused["logId"]]
    assert ids(client_of(agent=other).get(PATH, {"idempotencyKey": "order-1"})) == [theirs.id]
    assert ids(api.get(PATH, {**by_key, "result": "blocked"})) == []
    assert ids(api.get(PATH, {**by_key, "idempotencyKey": "order-3"})) == []
    assert faulty_params(api.get(PATH, {"idempotencyKey": "order-1"})) == ["idempotencyKey"]


def test_a_refusal_whose_key_conflicts_later_is_found_by_that_key(api, agent, payment):
    refused = error_of(api.pay({**payment, "amount": "11"}, "order-1"), 422, "budget_exceeded")
    error_of(api.pay(payment, "order-1"), 409, "idempotency_conflict")

    (entry,) = api.get(PATH, {"agentId": agent.id, "idempotencyKey": "order-1"}).json()["data"]

    assert (entry["id"], entry["result"]) == (refused["logId"], "blocked")


@pytest.mark.parametrize("key", ["", '""', "x" * 256, "\u00fc", "a\nb"])
def test_what_is_no_key_is_400(api, agent, key):
    assert faulty_params(api.get(PATH, {"agentId": agent.id, "idempotencyKey": key})) == ["idempotencyKey"]


# --- Cursors
def test_a_cursor_of_a_release_that_knew_no_keys_still_leads_on(api, agent, service):
    made = fill(agent, service, 3)

    cursor = write_cursor(made[0], {"agentId": agent.id, "result": None})

    assert ids(api.get(PATH, {"agentId": agent.id, "cursor": cursor})) == made[1:]


def test_the_log_shows_amounts_and_text_as_they_were_written(api, agent, payment):
    body = {
        **payment,
        "amount": "007",
        "reason": " <b>\u00fc\U0001f600</b>\n",
        "metadata": {"z": [1, {"y": None}], "a": 2.5},
    }
    api.pay(body)

    (entry,) = json.loads(api.get(PATH, {"agentId": agent.id}).content)["data"]

    assert (entry["amount"], entry["reason"], entry["metadata"]) == (body["amount"], body["reason"], body["metadata"])
