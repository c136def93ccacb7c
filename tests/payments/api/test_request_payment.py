"""`POST /v1/payments/request`: an approved payment, and every malformed one. The rules have a file of their own."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.times import format_instant, utc_now
from ledger.models import BalanceMovement, LogEntry
from payments.models import Payment, Settlement
from policy.models import Agent
from services.models import WebhookEvent
from tests.support.answers import INSTANT, ULID, error_of, faulty_params
from tests.support.factories import decide, make_agent, make_service, new_name

MEMBERS = ["id", "status", "amount", "asset", "service", "tx", "policyRevision", "spentToday", "createdAt"]
HOOK = "https://hooks.example.com/pay"


def nested(depth):
    """Make a metadata object whose containers are nested so deep."""
    value: Any = {} if depth % 2 else []
    for level in range(1, depth):
        value = {"a": value} if (depth - level) % 2 else [value]
    return value


def sized(size):
    """Make metadata of so many bytes as compact UTF-8 JSON."""
    frame = len('{"a":""}')
    return {"a": "\u00e9" * ((size - frame) // 2) + "x" * ((size - frame) % 2)}


def test_a_payment_within_policy_is_201_with_the_members_of_the_specification(api, payment):
    response = api.pay(payment)

    answer = response.json()
    assert response.status_code == 201
    assert list(answer) == MEMBERS
    assert {name: answer[name] for name in ("amount", "asset", "service")} == {
        name: payment[name] for name in ("amount", "asset", "service")
    }
    assert answer["status"] == "approved"
    assert answer["policyRevision"] == "polrev_1"
    assert re.fullmatch(f"pay_{ULID}", answer["id"])
    assert re.fullmatch(r"0x[0-9a-f]{64}", answer["tx"])
    assert INSTANT.fullmatch(answer["createdAt"])
    assert response["Location"] == f"/v1/payments/{answer['id']}"
    assert "Idempotent-Replayed" not in response


def test_a_payment_is_answered_with_the_time_of_its_decision(api, payment):
    before = format_instant(utc_now())

    created_at = api.pay(payment).json()["createdAt"]

    assert before <= created_at <= format_instant(utc_now())


@pytest.mark.parametrize("amount", ["0.5", "0.50", "007", "1", "1.000000", "0.000001", "00000000000000000001"])
def test_an_amount_is_echoed_exactly_as_it_was_written(api, payment, amount):
    answer = api.pay({**payment, "amount": amount}).json()

    assert answer["amount"] == amount
    assert LogEntry.objects.get(payment_id=answer["id"]).amount == amount


def test_spent_today_counts_this_payment_and_is_a_plain_decimal(api, payment):
    spent = [
        api.pay({**payment, "amount": amount}).json()["spentToday"] for amount in ("1", "0.5", "0.000001", "8.499999")
    ]

    assert spent == ["1.00", "1.50", "1.500001", "10.00"]


def test_a_payment_changes_balance_windows_and_rows_in_one_go(api, agent, payment, service):
    answer = api.pay({**payment, "amount": "2.50"}).json()

    agent = Agent.objects.get(pk=agent.id)
    entry = LogEntry.objects.get(agent=agent)
    row = Payment.objects.get(pk=answer["id"])
    settlement = Settlement.objects.get(payments=row)
    movement = BalanceMovement.objects.get(agent=agent, kind="payment")
    assert (agent.balance, agent.spent_total) == (997.5, 2.5)
    assert (entry.result, entry.rule, entry.payment_id, entry.tx) == (
        "approved", "under_max_payment", row.id, answer["tx"],
    )  # fmt: skip
    assert (row.status, row.amount, row.recipient) == ("approved", 2.5, service.address)
    # Known and stored before it is first sent.
    assert (settlement.tx, settlement.state, bool(settlement.raw)) == (answer["tx"], "signed", True)
    assert (movement.amount, movement.balance_after, movement.payment_id) == (-2.5, 997.5, row.id)


def test_two_equal_payments_with_two_keys_are_two_payments(api, payment):
    first, second = api.pay(payment).json(), api.pay(payment).json()

    assert first["id"] != second["id"]
    assert first["tx"] != second["tx"]


@pytest.mark.parametrize("asset", ["USDC", "USDT", "PYUSD", "EURC"])
def test_an_allowance_of_any_served_asset_pays(api, asset):
    agent, service = make_agent(asset=Asset(asset)), make_service(asset=Asset(asset))
    body = {"agentId": agent.id, "service": service.id, "amount": "1", "asset": asset, "reason": "A test"}

    assert api.pay(body).json()["asset"] == asset


@pytest.mark.parametrize(
    "reason",
    ["a", "x" * 1000, "  kept as it is \n", "\u00fc\U0001f600", " " * 3000 + "x" * 1000 + "\n" * 3000, "\x01.",
     "\u200f\u05d0"],
)  # fmt: skip
def test_a_reason_is_kept_verbatim(api, agent, payment, reason):
    response = api.pay({**payment, "reason": reason})

    assert response.status_code == 201
    assert LogEntry.objects.get(agent=agent).reason == reason


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"a": None},
        {"n": [1, 2.5, -3, True, {"x": "\u00fc\U0001f600"}]},
        {"": {"": ""}},
        nested(10),
        sized(16 * 1024),
    ],
)
def test_metadata_is_kept(api, payment, metadata):
    answer = api.pay({**payment, "metadata": metadata})

    assert answer.status_code == 201
    assert LogEntry.objects.get(payment_id=answer.json()["id"]).metadata == metadata


@pytest.mark.parametrize("absent", [{}, {"metadata": None}])
def test_metadata_that_is_null_or_absent_is_none(api, agent, payment, absent):
    api.pay({**payment, **absent})

    assert LogEntry.objects.get(agent=agent).metadata is None


def test_sizes_and_depths_are_what_the_tests_say():
    assert len(json.dumps(sized(16 * 1024), ensure_ascii=False, separators=(",", ":")).encode()) == 16 * 1024
    assert json.dumps(nested(3)) == '{"a": [{}]}'


NO_STRINGS: list[Any] = [None, 1, 1.5, 0, True, False, [], ["x"], {}, {"a": "x"}]
BAD_AMOUNTS = [
    "", " ", "1.", ".5", ".", "+1", "-1", "-0.5", "1e3", "1E3", " 1", "1 ", "1\n", "\t1", "1,5", "1,000.00", "1_0",
    "0x1", "\uff11", "\u0661", "1.\uff15", "\u00bd", "1" * 21, "1." + "1" * 19, "0.0000001", "1.0000000", "0", "0.0",
    "0.000", "000", "0.000000", "NaN", "Infinity", "-Infinity", "1.1.1", "one", "$1", "1 USDC", "1\u00a0", "\u22121",
    "1" * 5000,
]  # fmt: skip


BLANK = [
    "", " ", " \n\t ", "\u00a0", "\x01\x7f", "\u200b", "\u202e", "\u2066\u2069", "\ufeff", "\u00ad", "\u2800", "\u3164",
    "\u115f\u1160", "\uffa0", "\u180e", "\u034f", "\ufe0f", "\u2060\u2064", "\U000e0041\U000e007f", "\U000e0100",
    "\U0001d159", "\u200b \u200d\n\u2028",
]  # fmt: skip
NAMES = ["", "x" * 256, "a\nb", "a\x7f", "a\x85b"]
MALFORMED: dict[str, list[Any]] = {
    "agentId": NO_STRINGS + NAMES,
    "service": NO_STRINGS + NAMES,
    "amount": NO_STRINGS + BAD_AMOUNTS,
    "asset": [*NO_STRINGS, "", "usdc", "Usdc", " USDC", "USDC ", "BTC", "USD", "USDC,SOL", "x" * 1000],
    "reason": [*NO_STRINGS, *BLANK, "x" * 1001, " " + "x" * 1001],
    "metadata": ["", "x", "{}", 1, 0, 1.5, True, False, [], [{}], nested(11), sized(16 * 1024 + 1)],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in MALFORMED.items() for value in values]
)
def test_a_malformed_field_is_named_and_leaves_no_trace(api, payment, no_trace, field, value):
    response = api.pay({**payment, field: value})

    assert set(faulty_params(response)) == {field}


@pytest.mark.parametrize("field", ["agentId", "service", "amount", "asset", "reason"])
def test_a_missing_field_is_named(api, payment, no_trace, field):
    del payment[field]

    assert faulty_params(api.pay(payment)) == [field]


def test_every_fault_of_a_request_is_named(api, no_trace):
    assert set(faulty_params(api.pay({}))) == {"agentId", "service", "amount", "asset", "reason"}


@pytest.mark.parametrize(
    ("asset", "finest", "too_fine"),
    [("USDC", "0.000001", "0.0000010"), ("SOL", "0.000000001", "0.0000000010"), ("EURC", "1.100000", "1.1000000")],
)
def test_an_amount_has_no_more_decimals_than_its_asset(api, payment, asset, finest, too_fine):
    agent = make_agent(asset=Asset(asset))
    body = {**payment, "agentId": agent.id, "asset": asset}

    assert "amount" not in str(api.pay({**body, "amount": finest}).json().get("error", {}).get("fields"))
    assert faulty_params(api.pay({**body, "amount": too_fine})) == ["amount"]


@pytest.mark.parametrize(
    "member",
    [
        '"amount": 1.00', '"amount": 1', '"amount": 1e999', '"amount": NaN', '"amount": 123456789012345678901234567890',
        '"amount": "1", "amount": "1"', '"amount": "1", "\\u0061mount": "2"', '"amount": "\\u0000"',
        '"amount": "\\ud800"', '"amount": "1", "metadata": {"a": "\\u0000"}',
        '"amount": "1", "metadata": {"a": {"b": 1, "b": 1}}',
        '"amount": "1", "metadata": {"\\udc00": 1}', '"amount": "1", "metadata": {"a": 1e400}',
        '"amount": "1", "metadata": {"a": 9007199254740992}', '"amount": "1", "metadata": {"a": Infinity}',
        '"amount": "1", "other": "\\u0000"', '"amount": "1", "other": ' + "[" * 100 + "]" * 100,
    ],
)  # fmt: skip
def test_what_json_can_hide_leaves_no_trace(api, payment, no_trace, member):
    del payment["amount"]
    body = json.dumps(payment)[:-1] + f", {member}}}"

    error_of(api.pay(body.encode()), 400, "invalid_request")


@pytest.mark.parametrize(
    "agent_id", ["nobody", " ", "x" * 255, "\u00fc", "'; DROP TABLE policy_agent; --", "%", "../x"]
)
def test_an_unknown_agent_is_404_and_leaves_no_trace(api, payment, no_trace, agent_id):
    error_of(api.pay({**payment, "agentId": agent_id}), 404, "agent_not_found")


def test_an_agent_id_is_compared_as_it_is(api, agent, payment, no_trace):
    for other in (agent.id.upper(), f" {agent.id}", f"{agent.id} "):
        error_of(api.pay({**payment, "agentId": other}), 404, "agent_not_found")


def test_unknown_members_are_ignored(api, payment):
    assert api.pay({**payment, "recipient": "0x0", "status": "settled", "extra": [1]}).status_code == 201


def test_a_payee_with_a_webhook_is_told_of_an_approved_payment(api, agent, payment):
    service = make_service(webhook_url=HOOK)
    metadata = {"order": 7, "note": "\u00fc"}

    answer = api.pay({**payment, "service": service.id, "amount": "0.50", "metadata": metadata}).json()

    event = WebhookEvent.objects.get(service=service)
    told = json.loads(event.payload)
    assert (list(told), [*told["data"]][-1]) == (["id", "type", "timestamp", "data"], "escrowId")
    assert re.fullmatch(f"evt_{ULID}", told["id"])
    assert (event.id, event.type) == (told["id"], told["type"]) == (told["id"], "payment.approved")
    assert told["timestamp"] == answer["createdAt"]
    assert told["data"] == {
        "paymentId": answer["id"],
        "logId": LogEntry.objects.get(agent=agent).id,
        "agentId": agent.id,
        "service": service.id,
        "amount": "0.50",
        "asset": "USDC",
        "status": "approved",
        "recipient": f"eip155:31337:{service.address}",
        "tx": answer["tx"],
        "reason": payment["reason"],
        "metadata": metadata,
        "createdAt": answer["createdAt"],
        "escrowId": Payment.objects.get(pk=answer["id"]).escrow_id,
    }


def test_a_webhook_without_metadata_says_null(agent):
    service = make_service(webhook_url=HOOK)

    decide(agent, service)

    assert json.loads(WebhookEvent.objects.get(service=service).payload)["data"]["metadata"] is None


def test_nobody_is_told_of_a_blocked_payment_nor_a_payee_without_a_webhook(api, payment):
    hooked = make_service(webhook_url=HOOK)

    assert api.pay({**payment, "service": hooked.id, "amount": "10.01"}).status_code == 422
    assert api.pay(payment).status_code == 201

    assert not WebhookEvent.objects.filter(service__in=[hooked.id, payment["service"]]).exists()


def test_the_decisions_of_an_agent_stay_in_order_when_the_clock_steps_back_a_little(agent, service):
    now = utc_now()
    first = decide(agent, service, at=now)

    second = decide(agent, service, at=now - timedelta(seconds=5), key=new_name("key"))

    assert second.created_at == first.created_at
    assert second.id > first.id
    assert second.previous_hash == first.hash
