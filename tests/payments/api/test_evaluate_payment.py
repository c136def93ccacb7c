"""`POST /v1/payments/evaluate`: what a payment request would be answered, and nothing else.

That an evaluation agrees with the decision is asserted before every payment of the state machine of
`tests/payments/reconciling/test_escrow_history.py`, too.
"""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal

import pytest
import requests
from django.db import transaction
from solders.keypair import Keypair

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.models import ChainState, Relayer
from policy.hours import parse_hours
from policy.models import Agent
from policy.more_limits import NO_MORE
from policy.operations import pause_agent, switch_signer
from policy.parents import lock_agent
from policy.rules import RULES, SIGNER_RULE, rules_in_force
from services.models import Service
from services.operations import disable_service
from tests.support.answers import INSTANT, count_rows, error_of, faulty_params
from tests.support.factories import decide, make_agent, make_api_key, make_service
from tests.support.fake_chain import PATIENCE_S
from tests.support.local_ids import SOLANA_LOCALNET
from tests.support.refusals import body_for, wealthy

PATH = "/v1/payments/evaluate"
FIGURES = ("limit", "spent", "requested", "remaining", "headroom")


def evaluate(api, body):
    response = api.post(PATH, body)
    assert response.status_code == 200, response.content
    return response.json()


def rule_of(evaluation, name):
    return next(one for one in evaluation["rules"] if one["rule"] == name)


def figures_of(evaluation, name):
    return tuple(rule_of(evaluation, name)[figure] for figure in FIGURES)


# --- What cannot be paid until somebody changes something
def test_a_payee_that_cannot_be_paid_is_told_so_and_that_waiting_does_not_help(api, service):
    agent = make_agent(daily_limit="1")
    decide(agent, service, "1")
    Service.objects.filter(pk=service.pk).update(chain="eip155:1", approved_recipient=f"eip155:1:{service.address}")

    found = evaluate(api, body_for(agent, service, "1"))

    assert (found["result"], found["rule"], found["code"]) == ("blocked", "service_payable", "service_not_payable")
    assert "not served here" in found["message"]
    assert (found["allowedAt"], found["fee"]) == (None, None)
    assert rule_of(found, "under_daily_limit")["passed"] is False


def test_who_may_not_pay_a_payee_does_not_learn_that_it_could_not_be_paid_anyway(api, service):
    agent = make_agent(services=[])
    Service.objects.filter(pk=service.pk).update(chain="eip155:1", approved_recipient=f"eip155:1:{service.address}")

    found = evaluate(api, body_for(agent, service))

    assert found["rule"] == "service_approved"
    assert rule_of(found, "service_payable")["passed"] is True


# --- What would be approved
def test_it_tells_every_rule_in_its_order_with_figures_and_headroom(api, service):
    agent = make_agent(max_per_payment="10", daily_limit="50", weekly_limit="100", balance="1000")
    decide(agent, service, "7.5")

    found = evaluate(api, body_for(agent, service, "2.50"))

    assert (found["result"], found["rule"], found["code"], found["allowedAt"]) == (
        "approved",
        "under_max_payment",
        None,
        None,
    )
    assert [one["rule"] for one in found["rules"]] == [
        *(rule.name for rule in rules_in_force(NO_MORE)),
        SIGNER_RULE.name,
    ]
    assert {(one["passed"], one["message"]) for one in found["rules"]} == {(True, None)}
    assert figures_of(found, "agent_active") == (None,) * 5
    assert figures_of(found, "balance_covers_payment") == (None, None, "2.50", "992.50", "990.00")
    assert figures_of(found, "under_weekly_limit") == ("100.00", "7.50", "2.50", "92.50", "90.00")
    assert figures_of(found, "under_daily_limit") == ("50.00", "7.50", "2.50", "42.50", "40.00")
    assert figures_of(found, "under_max_payment") == ("10.00", None, "2.50", "10.00", "7.50")
    assert found["policyRevision"] == "polrev_1"
    assert INSTANT.fullmatch(found["evaluatedAt"])


def test_it_tells_the_optional_rules_that_the_policy_has_and_no_others(api, service):
    hours = parse_hours("daily 00:00-24:00 UTC")
    agent = make_agent(hourly_limit=Decimal(9), payments_per_hour=3, allowed_hours=hours)
    decide(agent, service, "7.5")

    found = evaluate(api, body_for(agent, service, "2.50"))

    optional = [rule.name for rule in RULES if rule.parts]
    told = [one["rule"] for one in found["rules"] if one["rule"] in optional]
    assert told == ["within_hours", "under_hourly_limit", "under_hourly_count"]
    assert (found["rule"], found["code"]) == ("under_hourly_limit", "budget_exceeded")
    assert figures_of(found, "under_hourly_limit") == ("9.00", "7.50", "2.50", "1.50", "0.00")
    assert figures_of(found, "under_hourly_count") == ("3", "1", "1", "2", "1")
    assert figures_of(found, "within_hours") == (None,) * 5
    assert found["allowedAt"] is not None


def test_it_tells_what_the_gas_would_cost_at_most(api, payment, service):
    fee = evaluate(api, payment)["fee"]

    assert (fee["chain"], fee["coin"]) == (service.chain, "ETH")
    assert Decimal(fee["atMost"]) > 0


@pytest.mark.parametrize(("amount", "result"), [("0.0005", "blocked"), ("0.01", "approved")])
def test_on_solana_it_tells_whether_the_payees_account_can_exist(api, amount, result):
    """Nobody has the account yet: it must hold 0.00089088 SOL."""
    agent, service = (
        make_agent(asset=Asset.SOL),
        make_service(asset=Asset.SOL, recipient=f"{SOLANA_LOCALNET}:{Keypair().pubkey()}"),
    )

    found = evaluate(api, body_for(agent, service, amount, "SOL"))

    assert (found["result"], found["fee"] and found["fee"]["coin"]) == (result, "SOL" if result == "approved" else None)


def test_the_real_payment_then_has_what_was_evaluated(api, payment):
    found = evaluate(api, payment)

    answer = api.pay(payment).json()

    assert answer["policyRevision"] == found["policyRevision"]
    assert Decimal(answer["spentToday"]) == Decimal(50) - Decimal(rule_of(found, "under_daily_limit")["headroom"])


# --- What would be blocked
@pytest.mark.parametrize(
    ("change", "code", "rule"),
    [
        ({"service": "nobody"}, "service_not_approved", "service_approved"),
        ({"asset": "EURC"}, "invalid_request", "asset_matches"),
        ({"amount": "1000.01"}, "budget_exceeded", "balance_covers_payment"),
        ({"amount": "100.01"}, "budget_exceeded", "under_weekly_limit"),
        ({"amount": "50.01"}, "budget_exceeded", "under_daily_limit"),
        ({"amount": "10.01"}, "budget_exceeded", "under_max_payment"),
    ],
)
def test_what_would_be_refused_is_told_as_the_refusal_tells_it(api, payment, change, code, rule):
    body = {**payment, **change}

    found = evaluate(api, body)
    error = api.pay(body).json()["error"]

    assert (found["result"], found["code"], found["rule"]) == ("blocked", code, rule)
    assert (error["code"], error["rule"], error["message"]) == (code, rule, found["message"])
    blocking = rule_of(found, rule)
    assert (blocking["passed"], blocking["message"]) == (False, error["message"])
    assert found["allowedAt"] == error.get("allowedAt")
    for figure in FIGURES[:-1]:
        assert blocking[figure] == error.get(figure)
    assert rule_of(found, "policy_signer_available")["passed"] is None


def test_every_rule_that_objects_is_told_not_only_the_first(api, service):
    agent = wealthy(daily_limit="5", max_per_payment="4", balance="3")

    found = evaluate(api, body_for(agent, service, "6"))

    assert [one["rule"] for one in found["rules"] if one["passed"] is False] == [
        "balance_covers_payment",
        "under_daily_limit",
        "under_max_payment",
    ]
    assert found["rule"] == "balance_covers_payment"
    assert figures_of(found, "under_max_payment") == ("4.00", None, "6.00", "4.00", "0.00")


def test_it_tells_when_the_same_payment_fits(api, service):
    agent = wealthy(daily_limit="10")
    decide(agent, service, "8")

    found = evaluate(api, body_for(agent, service, "3"))

    assert found["allowedAt"] == api.pay(body_for(agent, service, "3")).json()["error"]["allowedAt"]
    assert INSTANT.fullmatch(found["allowedAt"])


def test_a_paused_agent_and_a_disabled_service_are_told(api, payment, agent, service):
    pause_agent(agent.id, by="ann")
    disable_service(service.id, by="ann")

    found = evaluate(api, payment)

    assert (found["code"], found["rule"], found["fee"]) == ("agent_paused", "agent_active", None)
    assert rule_of(found, "service_approved")["passed"] is False


def stop_signing():
    switch_signer(is_signing=False, by="ann")


def forget_the_chain():
    ChainState.objects.update(observed_at=utc_now() - timedelta(days=2))


def disable_the_relayers():
    Relayer.objects.update(is_enabled=False)


@pytest.mark.parametrize("trouble", [stop_signing, forget_the_chain, disable_the_relayers])
def test_what_could_not_be_signed_or_prepared_is_told_and_not_a_503(api, payment, trouble):
    trouble()

    found = evaluate(api, payment)
    error = error_of(api.pay(payment), 503, "policy_signer_unavailable")

    assert (found["result"], found["code"]) == ("blocked", "policy_signer_unavailable")
    assert (found["rule"], found["message"]) == (error["rule"], error["message"])
    assert rule_of(found, "policy_signer_available")["passed"] is False
    assert all(one["passed"] for one in found["rules"][:-1])


# --- What it leaves behind: nothing
def test_it_writes_nothing_whatever_it_finds(api, payment, agent):
    before, row = count_rows(), Agent.objects.filter(pk=agent.id).values().get()

    for change in ({}, {"service": "nobody"}, {"amount": "11"}, {"asset": "SOL"}):
        evaluate(api, {**payment, **change})

    assert (count_rows(), Agent.objects.filter(pk=agent.id).values().get()) == (before, row)


def test_it_needs_no_key_and_uses_none_up(api, payment):
    api.post(PATH, payment, idempotency_key="one")

    assert api.pay(payment, "one").status_code == 201
    assert evaluate(api, payment)["result"] == "approved"


def test_it_waits_for_nobody_who_holds_the_agent_or_a_relayer(committed, servers):
    agent, service = make_agent(), make_service()
    headers = {"Authorization": f"Bearer {make_api_key()}"}
    body = body_for(agent, service)

    def ask():
        return requests.post(servers.urls[0] + PATH, json=body, headers=headers, timeout=PATIENCE_S)

    with transaction.atomic(), ThreadPoolExecutor(1) as pool:
        lock_agent(agent.id)
        list(Relayer.objects.select_for_update().filter(chain=service.chain))
        answer = pool.submit(ask).result()

    assert (answer.status_code, answer.json()["result"]) == (200, "approved")


# --- Who may ask, and what is refused
def test_a_body_that_is_not_a_payment_request_is_400(api, payment):
    assert faulty_params(api.post(PATH, {**payment, "amount": 1})) == ["amount"]
    assert faulty_params(api.post(PATH, b"[")) == [""]


def test_an_unknown_agent_is_404(api, payment):
    error_of(api.post(PATH, {**payment, "agentId": "nobody"}), 404, "agent_not_found")


def test_a_key_asks_for_its_own_agent_with_the_scope_of_payments(client_of, payment, agent):
    error_of(client_of(agent=make_agent()).post(PATH, payment), 403, "insufficient_scope")
    error_of(client_of(agent=agent, scopes=["budgets", "logs"]).post(PATH, payment), 403, "insufficient_scope")
    assert evaluate(client_of(agent=agent, scopes=["payments"]), payment)["result"] == "approved"


def test_without_a_key_it_is_401_and_other_methods_are_405(anonymous, api, payment):
    error_of(anonymous.post(PATH, payment), 401, "invalid_api_key")
    error_of(api.get(PATH), 405, "method_not_allowed")


def test_where_nothing_can_be_decided_nothing_is_evaluated(api, payment, agent):
    Agent.objects.filter(pk=agent.id).update(last_entry_at=utc_now() + timedelta(minutes=5))

    error_of(api.post(PATH, payment), 503, "policy_signer_unavailable")
