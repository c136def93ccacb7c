"""`GET /metrics`: for a monitor with the token, and for nobody else."""

from datetime import timedelta
from decimal import Decimal

import pytest
from prometheus_client.parser import text_string_to_metric_families

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.models import AgentGas, ChainState, Payment, Relayer, Withdrawal
from services.models import DeliveryState, WebhookDelivery, WebhookEndpoint
from services.webhooks.operations import send_test_event
from tests.support.answers import error_of
from tests.support.deposits import make_deposit_aside
from tests.support.factories import make_agent, make_service, new_name
from tests.support.reconciliations import EscrowScene, level, make_comparison

TOKEN = "a-token-that-nobody-guesses"


@pytest.fixture(autouse=True)
def token(settings):
    settings.METRICS_TOKEN = TOKEN


def read(client):
    """Ask for the metrics; return the value of each by its name and labels."""
    response = client.get("/metrics", authorization=f"Bearer {TOKEN}")
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(response.content.decode())
    return {
        (
            sample.name.removeprefix("allowance_"),
            *(sample.labels[of] for of in ("chain", "asset", "state", "relayer") if of in sample.labels),
        ): sample.value
        for family in families
        for sample in family.samples
    }


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("sent", ["", "Bearer ", f"Bearer {TOKEN}"])
def test_without_a_token_configured_there_is_no_such_address(anonymous, settings, method, sent):
    settings.METRICS_TOKEN = ""

    response = anonymous.send(method, "/metrics", authorization=sent)

    error_of(response, 404, "not_found")
    assert response.content == anonymous.get("/there-is-nothing-here").content


@pytest.mark.parametrize("sent", ["", "Bearer", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN, "Bearer \xe9"])
def test_another_token_is_refused(anonymous, sent):
    error_of(anonymous.get("/metrics", authorization=sent), 401, "invalid_api_key")


def test_metrics_are_only_read(anonymous):
    error_of(anonymous.send("POST", "/metrics", authorization=f"Bearer {TOKEN}"), 405, "method_not_allowed")


def test_the_newest_comparison_of_each_asset_is_told(anonymous):
    make_comparison("eip155:8453", drift="5")
    make_comparison("eip155:8453", drift="-2.5", unconfirmed=["pay_1", "pay_2"])

    found = read(anonymous)

    assert found["reconciliation_drift", "base", "USDC"] == -2.5
    assert found["escrow_holdings", "base", "USDC"] == 100
    assert found["reconciliation_unconfirmed_payments", "base", "USDC"] == 2
    assert 0 <= found["reconciliation_age_seconds", "base", "USDC"] < 3600


def test_chains_that_are_stopped_mismatched_or_unseen_are_told(anonymous):
    long_ago = utc_now() - timedelta(hours=2)
    ChainState.objects.create(chain="good", state={}, observed_at=utc_now())
    ChainState.objects.create(chain="bad", state={}, observed_at=long_ago, stopped_reason="Why", mismatch="What")

    found = read(anonymous)

    assert (found["chain_stopped", "good"], found["chain_stopped", "bad"]) == (0, 1)
    assert (found["chain_mismatched", "good"], found["chain_mismatched", "bad"]) == (0, 1)
    assert found["chain_observation_age_seconds", "good"] < 3600 < found["chain_observation_age_seconds", "bad"]


def test_open_transactions_and_the_oldest_payment_are_told_by_chain(anonymous):
    scene = EscrowScene()
    scene.settle()
    old = scene.pay_and_send()
    scene.pay(), scene.pay()
    Payment.objects.filter(pk=old.pk).update(created_at=utc_now() - timedelta(hours=2))

    found = read(anonymous)

    assert found["settlements_open", scene.chain.name, "broadcast"] == 1
    assert found["settlements_open", scene.chain.name, "signed"] == 2
    assert ("settlements_open", scene.chain.name, "final") not in found
    assert 7200 <= found["oldest_open_payment_age_seconds", scene.chain.name] < 10_000


def test_relayers_and_their_gas_money_are_told(anonymous):
    for number, (is_enabled, is_funded) in enumerate([(True, True), (True, False), (False, True)]):
        Relayer.objects.create(
            chain="gas", number=number, address=f"r{number}", is_enabled=is_enabled, is_funded=is_funded,
            gas_balance=Decimal("0.25") if number else None,
        )  # fmt: skip

    found = read(anonymous)

    assert (found["relayers_enabled", "gas"], found["relayers_in_rotation", "gas"]) == (2, 1)
    assert found["relayer_gas_balance", "gas", "1"] == 0.25
    assert ("relayer_gas_balance", "gas", "0") not in found


def test_what_the_agents_transactions_cost_is_told_by_chain(anonymous):
    hour = utc_now().replace(minute=0, second=0, microsecond=0)
    for cost in ("0.25", "0.5"):
        AgentGas.objects.create(agent=make_agent(), chain="gas", hour=hour, cost=Decimal(cost))

    assert read(anonymous)["gas_spent_24h", "gas"] == 0.75


def test_deposits_that_are_credited_to_nobody_are_counted(anonymous):
    deposit = make_deposit_aside()

    assert read(anonymous)["deposits_aside", deposit.chain] == 1


def test_what_is_promised_and_held_over_all_chains_is_told(anonymous, settings):
    row = level(settings, "somewhere", surplus="-2.5", asset=Asset.EURC)

    found = read(anonymous)

    assert found["pool_surplus", "EURC"] == -2.5
    assert found["pool_held", "EURC"] == row.holds
    assert found["pool_promised", "EURC"] == float(row.holds) + 2.5
    assert ("pool_surplus", "USDC") not in found  # it is not served


def test_what_leaves_the_escrows_beside_payments_is_counted(anonymous):
    scene = EscrowScene()
    scene.lose("3")
    Withdrawal.objects.create(
        reference=new_name("wdr"), chain=scene.chain.name, escrow="", asset="USDC", amount=1, recipient="r",
        author="fiona", reason="R", created_at=utc_now(),
    )  # fmt: skip

    found = read(anonymous)

    assert (found["outflows_open", scene.chain.name], found["withdrawals_open", scene.chain.name]) == (1, 1)


def test_deliveries_of_webhooks_that_wait_failed_or_are_overdue_are_counted(anonymous):
    before = read(anonymous)
    service = make_service(webhook_url="https://payee.example.com/told")
    for changes in (
        {},
        {"next_attempt_at": utc_now() - timedelta(hours=1)},
        {"state": DeliveryState.FAILED, "next_attempt_at": None},
        {"state": DeliveryState.DELIVERED, "next_attempt_at": None},
    ):
        WebhookDelivery.objects.filter(pk=send_test_event(service.id, by="ann").pk).update(**changes)

    found = read(anonymous)

    more = {
        name: found[name] - before[name]
        for name in [
            ("webhook_deliveries", "waiting"), ("webhook_deliveries", "failed"), ("webhook_deliveries_overdue",),
        ]
    }  # fmt: skip
    assert list(more.values()) == [2, 1, 1]
    assert ("webhook_deliveries", "delivered") not in found


def test_endpoints_of_webhooks_are_counted_by_what_they_are_like(anonymous):
    before = read(anonymous)
    for changes in (
        {},
        {"succeeded_at": utc_now()},
        {"failing_since": utc_now()},
        {"disabled_at": utc_now(), "disabled_reason": "Why"},
        {"disabled_at": utc_now(), "disabled_reason": "Why"},
    ):
        service = make_service(webhook_url="https://payee.example.com/told")
        WebhookEndpoint.objects.filter(pk=service.id).update(**changes)
    make_service(webhook_url="https://payee.example.com/told", approved=False)

    found = read(anonymous)

    assert {name[1]: value - before[name] for name, value in found.items() if name[0] == "webhook_endpoints"} == {
        "new": 1,
        "working": 1,
        "failing": 1,
        "disabled": 2,
        "unserved": 1,
    }
