"""Nasty JSON over real HTTP: each case is refused for what is wrong with it, or kept as it was sent."""

import json
from decimal import Decimal

import pytest
import requests

from ledger.receipts import verify
from tests.fuzz.cast import settling
from tests.support.factories import make_agent, make_api_key, make_service, new_name
from tests.support.fake_chain import PATIENCE_S
from tests.support.nasty_json import MEMBERS, around

pytestmark = pytest.mark.long(20)

LIMIT = "100000"


@pytest.fixture(scope="module")
def till(servers, django_db_blocker):
    """A web server behind which payments settle, and an agent with a payee and a key."""
    with django_db_blocker.unblock(), settling():
        agent = make_agent(max_per_payment=LIMIT, daily_limit=LIMIT, weekly_limit=LIMIT, balance=LIMIT)
        yield Till(servers.urls[0], agent.id, make_service().id, make_api_key())


class Till:
    def __init__(self, url, agent_id, service_id, key):
        self.url = url
        self.agent_id = agent_id
        self._members = {"agentId": agent_id, "service": service_id, "amount": "0.01", "asset": "USDC", "reason": "x"}
        self._session = requests.Session()
        self._session.headers["Authorization"] = f"Bearer {key}"

    def body(self, member=None, text=b""):
        """Write a valid body, of which one member has the value that is given as JSON text."""
        members = {name: json.dumps(value).encode() for name, value in self._members.items()}
        if member is not None:
            members[member] = text
        return b"{" + b",".join(json.dumps(name).encode() + b":" + value for name, value in members.items()) + b"}"

    def pay(self, body, key):
        return self._session.post(
            f"{self.url}/v1/payments/request",
            data=body,
            headers={"Content-Type": "application/json", "Idempotency-Key": key},
            timeout=PATIENCE_S,
        )

    def get(self, path):
        answer = self._session.get(self.url + path, timeout=PATIENCE_S)
        assert answer.status_code == 200
        return answer.json()

    def newest(self):
        data = self.get(f"/v1/logs?agentId={self.agent_id}&limit=1")["data"]
        return data[0] if data else None


@pytest.mark.parametrize("case", MEMBERS, ids=lambda case: case.name)
def test_a_payment_with_a_nasty_member_is_refused_for_it_or_kept_as_it_was_sent(committed, till, case):
    assert_answered(till, case, till.body(case.member, case.text))


@pytest.mark.parametrize("name", [case.name for case in around(b"{}")])
def test_a_payment_with_a_nasty_body_is_refused_as_a_whole_or_kept_as_it_was_sent(committed, till, name):
    (case,) = [case for case in around(till.body()) if case.name == name]

    assert_answered(till, case, case.text)


def assert_answered(till, case, body):
    before, key = till.newest(), new_name("key")

    answer = till.pay(body, key)

    assert answer.status_code == case.status, (case.name, answer.text[:400])
    assert answer.headers["Cache-Control"] == "no-store"
    if case.status == 201:
        assert_kept(till, answer.json(), body)
        again = till.pay(body, key)
        assert (again.content, again.headers["Idempotent-Replayed"]) == (answer.content, "true")
        return
    error = answer.json()["error"]
    assert error["code"] == {400: "invalid_request", 413: "payload_too_large"}[case.status]
    assert [field["param"] for field in error.get("fields", [])] == ([case.param] if case.status == 400 else [])
    assert till.newest() == before


def assert_kept(till, shown, body):
    """Assert that the log and the payment tell what was sent, and that the receipt is genuine."""
    sent, entry = json.loads(body.decode("utf-8-sig")), till.newest()
    payment = till.get(f"/v1/payments/{shown['id']}")

    assert entry["paymentId"] == shown["id"]
    verify(entry, till.get("/.well-known/allowance-keys.json")["keys"])
    for member in ("agentId", "service", "amount", "asset", "reason"):
        assert entry[member] == payment[member] == sent[member]
    # As numbers: JSON knows no difference between 1 and 1.0, nor between 0 and -0.
    assert entry["metadata"] == payment["metadata"] == sent.get("metadata")
    assert Decimal(shown["amount"]) == Decimal(sent["amount"])
