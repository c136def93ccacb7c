"""The rules of `POST /v1/payments/request`, end to end: which of them decides, and what it leaves in the log."""

from dataclasses import replace as change
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from django.conf import settings as configured
from django.db.models import F, Value
from django.db.models.functions import Concat

from foundation.kernel.assets import Asset
from ledger.models import LogEntry
from policy.operations import pause_agent, resume_agent, set_policy, switch_signer
from services.models import Service
from services.operations import Registration, disable_service, register_service, reject_service
from tests.support.answers import error_of
from tests.support.factories import make_agent, make_service, new_address
from tests.support.local_ids import LOCALNET
from tests.support.refusals import assert_logged, assert_nothing_moved, body_for

# --- Which rule decides
FAULTS = {
    "agent_active": lambda agent, _body: pause_agent(agent.id, by="ann"),
    "service_approved": lambda _agent, body: body.update(service="nobody"),
    "service_payable": lambda _agent, body: move_to_a_chain_that_is_not_served(body["service"]),
    "asset_matches": lambda _agent, body: body.update(asset="EURC"),
    "above_minimum": lambda _agent, _body: demand("5000"),
    "balance_covers_payment": lambda _agent, body: body.update(amount="2000"),
    "under_weekly_limit": lambda agent, _body: limit_to_nothing(agent, "weekly_limit"),
    "under_daily_limit": lambda agent, _body: limit_to_nothing(agent, "daily_limit"),
    "under_max_payment": lambda agent, _body: limit_to_nothing(agent, "max_per_payment"),
    "policy_signer_available": lambda _agent, _body: switch_signer(is_signing=False, by="test"),
}
CODES = {
    "agent_active": (403, "agent_paused"),
    "service_approved": (403, "service_not_approved"),
    "service_payable": (403, "service_not_payable"),
    "asset_matches": (400, "invalid_request"),
    "above_minimum": (400, "invalid_request"),
    "balance_covers_payment": (422, "budget_exceeded"),
    "under_weekly_limit": (422, "budget_exceeded"),
    "under_daily_limit": (422, "budget_exceeded"),
    "under_max_payment": (422, "budget_exceeded"),
    "policy_signer_available": (503, "policy_signer_unavailable"),
}


@pytest.fixture
def chains(settings):
    """Let the chains that are served be changed."""
    settings.CHAINS = dict(settings.CHAINS)


def demand(minimum, asset=Asset.USDC):
    """Pay no less than this on the EVM chain from now on."""
    served = configured.CHAINS[LOCALNET]
    configured.CHAINS[LOCALNET] = change(served, minimums={**served.minimums, asset: Decimal(minimum)})


def move_to_a_chain_that_is_not_served(service_id):
    elsewhere = Concat(Value("eip155:1:"), F("address"))
    Service.objects.filter(pk=service_id).update(chain="eip155:1", approved_recipient=elsewhere)


def limit_to_nothing(agent, limit):
    nothing: dict[str, Any] = {limit: Decimal(0)}
    set_policy(agent.id, change=lambda limits: change(limits, **nothing), by="test")


@pytest.mark.usefixtures("chains")
@pytest.mark.parametrize("rule", FAULTS)
def test_a_rule_that_fails_is_answered_with_its_code_and_logged(api, agent, payment, rule):
    FAULTS[rule](agent, payment)

    error = error_of(api.pay(payment), *CODES[rule])

    assert_logged(agent, error, rule)
    assert_nothing_moved(agent)


@pytest.mark.usefixtures("chains")
@pytest.mark.parametrize(("first", "second"), list(pairwise(FAULTS)))
def test_of_two_rules_that_fail_the_first_decides(api, agent, payment, first, second):
    FAULTS[second](agent, payment)
    FAULTS[first](agent, payment)

    assert_logged(agent, error_of(api.pay(payment), *CODES[first]), first)


@pytest.mark.usefixtures("chains")
def test_when_all_rules_fail_the_first_decides(api, agent, payment):
    for fault in FAULTS.values():
        fault(agent, payment)

    assert_logged(agent, error_of(api.pay(payment), 403, "agent_paused"), "agent_active")


def test_a_resumed_agent_pays_again(api, agent, payment):
    pause_agent(agent.id, by="ann")
    assert api.pay(payment).status_code == 403
    resume_agent(agent.id, by="ann")

    assert api.pay(payment).status_code == 201


# --- Services
@pytest.mark.parametrize(
    "service",
    [
        "nobody", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "base:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", " ", "x" * 255, "\u00fc\U0001f600", "'; --",
    ],
)  # fmt: skip
def test_what_names_no_registered_service_is_refused_and_logged_as_it_was_asked(api, agent, service):
    error = error_of(api.pay(body_for(agent, service)), 403, "service_not_approved")

    assert_logged(agent, error, "service_approved")
    assert LogEntry.objects.get(agent=agent).service == service


def test_the_address_of_an_approved_service_is_not_the_service(api, agent, service):
    for name in (service.address, service.recipient, service.canonical_recipient, service.id.upper(), f"{service.id} "):
        error_of(api.pay(body_for(agent, name)), 403, "service_not_approved")


@pytest.mark.parametrize("step", [None, reject_service, disable_service])
def test_a_service_that_is_not_approved_now_is_refused(api, agent, step):
    service = make_service(approved=step is disable_service)
    if step:
        step(service.id, by="test")

    assert_logged(agent, error_of(api.pay(body_for(agent, service)), 403, "service_not_approved"), "service_approved")


def test_a_service_whose_recipient_changed_after_the_approval_is_refused(api, agent, service):
    register_service(Registration(service.id, "A payee", f"evm-localnet:{new_address()}", Asset.USDC))

    assert_logged(agent, error_of(api.pay(body_for(agent, service)), 403, "service_not_approved"), "service_approved")


def test_an_approved_service_that_the_policy_does_not_name_is_refused(api, service):
    agent = make_agent(services=["another"])

    assert_logged(agent, error_of(api.pay(body_for(agent, service)), 403, "service_not_approved"), "service_approved")


def test_a_service_that_the_policy_names_is_paid(api, service):
    assert api.pay(body_for(make_agent(services=["another", service.id]), service)).status_code == 201


# --- Assets
def test_an_asset_other_than_the_allowances_is_400_and_logged(api, agent):
    error = error_of(api.pay(body_for(agent, make_service(asset=Asset.EURC), asset="EURC")), 400, "invalid_request")

    assert_logged(agent, error, "asset_matches")
    assert [field["param"] for field in error["fields"]] == ["asset"]


def test_an_asset_other_than_the_services_is_400_and_logged(api, agent):
    error = error_of(api.pay(body_for(agent, make_service(asset=Asset.EURC))), 400, "invalid_request")

    assert_logged(agent, error, "asset_matches")


# --- Dust
@pytest.mark.usefixtures("chains")
def test_an_amount_below_the_chains_minimum_is_400_says_the_minimum_and_is_logged(api, agent, service):
    demand("0.01")

    error = error_of(api.pay(body_for(agent, service, "0.009999")), 400, "invalid_request")

    assert_logged(agent, error, "above_minimum")
    assert (error["limit"], error["requested"]) == ("0.01", "0.009999")
    assert [field["param"] for field in error["fields"]] == ["amount"]
    assert "0.01 USDC" in error["fields"][0]["message"] == error["message"]
    assert_nothing_moved(agent)


@pytest.mark.usefixtures("chains")
def test_an_amount_of_the_minimum_or_above_it_is_paid(api, agent, service):
    demand("0.01")

    assert [api.pay(body_for(agent, service, amount)).status_code for amount in ("0.01", "0.010001")] == [201, 201]


@pytest.mark.usefixtures("chains")
def test_a_minimum_is_of_one_asset_on_one_chain(api, agent, service):
    demand("0.01", Asset.EURC)

    assert api.pay(body_for(agent, service, "0.000001")).status_code == 201


@pytest.mark.usefixtures("chains")
def test_a_payment_below_the_minimum_is_refused_again_with_the_same_bytes_after_the_minimum_is_gone(
    api, agent, service, settings
):
    body = body_for(agent, service, "0.000001")
    demand("0.01")
    first = api.pay(body, "dust")
    settings.CHAINS[LOCALNET] = change(settings.CHAINS[LOCALNET], minimums={})

    again = api.pay(body, "dust")

    assert (again.status_code, again.content, again["Idempotent-Replayed"]) == (400, first.content, "true")
    assert LogEntry.objects.filter(agent=agent).count() == 1
