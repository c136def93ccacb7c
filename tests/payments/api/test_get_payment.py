"""`GET /v1/payments/{id}`."""

import pytest

from foundation.kernel.ids import new_id
from foundation.kernel.times import format_instant, utc_now
from payments.models import Leg, Payment, Settlement
from tests.support.answers import error_of
from tests.support.factories import decide

MEMBERS = [
    "id", "status", "amount", "asset", "service", "tx", "policyRevision", "spentToday", "createdAt",
    "agentId", "recipient", "reason", "metadata", "finalTx", "transactions", "logId", "settledAt", "failedAt",
    "failureReason", "escrowId",
]  # fmt: skip


def test_a_payment_that_was_just_approved_is_shown_as_it_was_answered(api, agent, service, payment):
    made = api.pay({**payment, "amount": "0.50", "metadata": {"order": 7}})
    answer = made.json()

    response = api.get(made["Location"])

    shown = response.json()
    assert response.status_code == 200
    assert list(shown) == MEMBERS
    assert [*shown.items()][: len(answer)] == [*answer.items()]
    assert (shown["agentId"], shown["reason"], shown["metadata"]) == (agent.id, "A test", {"order": 7})
    assert shown["recipient"] == f"eip155:31337:{service.address}"
    assert shown["transactions"] == [{"tx": answer["tx"], "state": "signed", "createdAt": answer["createdAt"]}]
    assert [shown[name] for name in ("finalTx", "settledAt", "failedAt", "failureReason")] == [None] * 4
    assert shown["logId"].startswith("log_")
    assert shown["escrowId"] == Payment.objects.get(pk=answer["id"]).escrow_id
    assert api.get("/v1/payments", {"agentId": agent.id}).json()["data"] == [shown]


def test_a_payment_shows_what_was_spent_by_then_whatever_was_spent_later(api, agent, service, payment):
    made = api.pay({**payment, "amount": "0.50"}).json()
    api.pay({**payment, "amount": "2"})

    assert api.get(f"/v1/payments/{made['id']}").json()["spentToday"] == made["spentToday"] == "0.50"


def test_a_settled_payment_shows_the_transaction_that_settled_it(api, agent, service):
    entry, now = decide(agent, service), utc_now()
    Payment.objects.filter(pk=entry.payment_id).update(status="settled", settled_at=now)
    Settlement.objects.filter(pk=entry.tx).update(state="final")

    shown = api.get(f"/v1/payments/{entry.payment_id}").json()

    assert (shown["status"], shown["finalTx"], shown["settledAt"]) == ("settled", entry.tx, format_instant(now))


def test_a_failed_payment_shows_why(api, agent, service):
    entry, now = decide(agent, service), utc_now()
    Payment.objects.filter(pk=entry.payment_id).update(status="failed", failed_at=now, failure_reason="Reverted.")
    Settlement.objects.filter(pk=entry.tx).update(state="failed")

    shown = api.get(f"/v1/payments/{entry.payment_id}").json()

    assert (shown["status"], shown["failureReason"], shown["finalTx"]) == ("failed", "Reverted.", None)
    assert (shown["failedAt"], shown["transactions"][0]["state"]) == (format_instant(now), "failed")


def test_every_transaction_of_a_payment_is_shown_newest_first(api, agent, service):
    entry = decide(agent, service)
    first = Settlement.objects.get(pk=entry.tx)
    Settlement.objects.filter(pk=entry.tx).update(state="replaced")
    second = Settlement.objects.get(pk=entry.tx)
    second.tx, second.state, second.created_at = "0x" + "5" * 64, "broadcast", utc_now()
    second.save(force_insert=True)
    Leg.objects.create(payment_id=str(entry.payment_id), settlement=second, agent=agent, chain=second.chain)

    shown = api.get(f"/v1/payments/{entry.payment_id}").json()

    assert [row["tx"] for row in shown["transactions"]] == [second.tx, first.tx]
    assert shown["tx"] == second.tx


def test_a_payment_that_does_not_exist_is_404(api):
    error_of(api.get(f"/v1/payments/{new_id('pay', utc_now())}"), 404, "payment_not_found")


@pytest.mark.parametrize(
    "payment_id",
    ["x", "pay_", "pay_1", "PAY_01H00000000000000000000000", "log_01h00000000000000000000000", "%00", "pay_%00", "%ff",
     "%ed%a0%80", "\u00fc", "pay_01h0000000000000000000000%0A", "..", "%2e%2e", "null", "1", "'--", "x" * 5000,
     "%F0%9F%98%80"],
)  # fmt: skip
def test_a_payment_id_of_any_form_is_404(api, payment_id):
    error_of(api.get(f"/v1/payments/{payment_id}"), 404, "payment_not_found")


@pytest.mark.parametrize("spoil", [str.upper, lambda name: name[:-1], lambda name: name + "0", lambda name: f" {name}"])
def test_a_payment_id_is_compared_as_it_is(api, agent, service, spoil):
    error_of(api.get(f"/v1/payments/{spoil(decide(agent, service).payment_id)}"), 404, "payment_not_found")
