"""The demo compares webhooks with what was promised: every difference is noticed."""

import json
from typing import Any

import pytest
import requests

from foundation.kernel.assets import Asset
from workshop.demo.promises import Order, Payment
from workshop.demo.webhook_checks import find_fault, is_about, promise

PAYMENT_ID = "pay_01m7wvfpqr9f7dchrw0jbqq4ae"
BODY = {
    "agentId": "agent-1",
    "service": "weather-api",
    "amount": "1.25",
    "asset": "USDC",
    "reason": "The demo's story",
    "metadata": {"run": 3},
}
STATE = {
    "id": PAYMENT_ID,
    **BODY,
    "status": "settled",
    "recipient": "eip155:31337:0x57eA7aE200000000000000000000000000000001",
    "tx": "0xnewest",
    "finalTx": "0xfinal",
    "logId": "log_1",
    "createdAt": "2026-11-20T22:00:00.000Z",
    "escrowId": "0xescrow",
}


def payment() -> Payment:
    answer = requests.Response()
    answer._content = json.dumps({"id": PAYMENT_ID, "status": "approved", "tx": "0xfirst"}).encode()
    return Payment(Order("agent-1", "weather-api", "1.25", Asset.USDC), BODY, "key", answer)


PROMISED = promise(payment(), STATE)


def reception(type_: str, *, data: dict[str, Any] | None = None, **members: Any) -> dict[str, Any]:
    """Make what the receiver prints of a genuine event, with what is different about it."""
    common = {name: STATE[name] for name in ("logId", "recipient", "createdAt", "escrowId")}
    status, tx = {"payment.approved": ("approved", "0xfirst"), "payment.settled": ("settled", "0xfinal")}[type_]
    told = {"paymentId": PAYMENT_ID, **BODY, **common, "status": status, "tx": tx} if data is None else data
    body = {"id": "evt_1", "type": type_, "timestamp": "2026-11-20T22:00:01.000Z", "data": told}
    genuine = {"id": "evt_1", "type": type_, "verified": True, "signatures": ["v1", "v1a"], "reason": None}
    return {**genuine, "body": body, **members}


SETTLED = reception("payment.settled")
DATA = SETTLED["body"]["data"]


@pytest.mark.parametrize("type_", ["payment.approved", "payment.settled"])
def test_an_event_that_is_genuine_and_says_what_was_promised_has_no_fault(type_):
    assert find_fault(reception(type_), PROMISED) == ""


def test_the_reason_why_an_event_is_not_genuine_is_its_fault():
    fault = find_fault(
        {**SETTLED, "verified": False, "signatures": ["v1a"], "reason": "No v1 signature fits."}, PROMISED
    )
    assert fault == "No v1 signature fits."


@pytest.mark.parametrize(
    ("signatures", "fault"), [(["v1"], "not signed v1a"), (["v1a"], "not signed v1"), ([], "not signed v1 and v1a")]
)
def test_a_missing_signature_is_noticed(signatures, fault):
    assert find_fault({**SETTLED, "signatures": signatures}, PROMISED) == fault


@pytest.mark.parametrize("name", sorted(DATA))
def test_every_member_of_the_data_counts(name):
    assert (
        find_fault(reception("payment.settled", data={**DATA, name: "another"}), PROMISED) == f"{name} not as promised"
    )
    without = {key: value for key, value in DATA.items() if key != name}
    assert find_fault(reception("payment.settled", data=without), PROMISED) == f"{name} not as promised"


def test_a_member_that_nobody_promised_is_noticed():
    fault = find_fault(reception("payment.settled", data={**DATA, "balance": "98.75"}), PROMISED)
    assert fault == "balance not as promised"


@pytest.mark.parametrize("header", [{"id": "evt_2"}, {"type": "payment.approved"}])
def test_a_body_of_another_event_is_noticed(header):
    assert find_fault({**SETTLED, **header}, PROMISED) == "the body is another event's"


def test_an_event_of_a_type_that_was_not_promised_is_noticed():
    body = {**SETTLED["body"], "type": "payment.failed"}
    assert find_fault({**SETTLED, "type": "payment.failed", "body": body}, PROMISED) == "this event was not promised"


def test_events_are_found_by_the_payment_that_they_are_about():
    assert is_about(SETTLED, PAYMENT_ID)
    assert is_about({**SETTLED, "verified": False}, PAYMENT_ID)
    assert not is_about(SETTLED, "pay_of_another_run")
    assert not is_about({**SETTLED, "body": None}, PAYMENT_ID)
    assert not is_about({**SETTLED, "body": {"id": "evt_1"}}, PAYMENT_ID)
