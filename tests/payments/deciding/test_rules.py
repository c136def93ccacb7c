"""The rules of `POST /v1/payments/request`, end to end: which decides, what it tells, what it leaves."""

from dataclasses import replace as change
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from django.conf import settings as configured

from allowance.kernel.assets import Asset
from allowance.kernel.errors import BudgetExceeded, PolicySignerUnavailable
from allowance.kernel.times import format_instant, utc_now
from chains.port import SignerUnavailable
from ledger.models import BalanceMovement, LogEntry, MovementKind
from ledger.operations import move_balance
from payments.models import ChainState, Payment, Relayer, Settlement
from policy.models import Agent
from policy.operations import lock_agent, pause_agent, resume_agent, set_policy, switch_signer
from policy.signer import local_signer
from services.models import Service
from services.operations import Registration, disable_service, register_service, reject_service
from tests.support.answers import error_of
from tests.support.chains import LOCALNET
from tests.support.factories import decide, make_agent, make_service, new_address

MILLISECOND = timedelta(milliseconds=1)
DAY = timedelta(hours=24)
WEEK = timedelta(days=7)


def wealthy(**limits):
    """Make an agent that only the limits given here hold back."""
    plenty: dict[str, Any] = dict.fromkeys(("max_per_payment", "daily_limit", "weekly_limit", "balance"), "1000")
    return make_agent(**{**plenty, **limits})


@pytest.fixture
def start():
    """A moment so long ago that weeks fit in before now."""
    return utc_now() - timedelta(days=60)


def body_for(agent, service, amount="1", asset="USDC"):
    service_id = service if isinstance(service, str) else service.id
    return {"agentId": agent.id, "service": service_id, "amount": amount, "asset": asset, "reason": "A test"}


def refused(agent, service, amount="1", *, at=None):
    """Ask for a payment that is over a limit; return the members of its refusal."""
    with pytest.raises(BudgetExceeded) as refusal:
        decide(agent, service, amount, at=at)
    return refusal.value.details


def assert_nothing_moved(agent):
    now = Agent.objects.get(pk=agent.id)
    assert (now.balance, now.spent_total) == (agent.balance, agent.spent_total)
    assert not Payment.objects.filter(agent=agent).exists()
    assert not BalanceMovement.objects.filter(agent=agent, kind="payment").exists()


def assert_logged(agent, error, rule):
    """The entry that a refusal names is there, blocked by the rule it names."""
    entry = LogEntry.objects.get(pk=error["logId"])
    assert (entry.agent_id, entry.result, entry.rule) == (agent.id, "blocked", rule)
    assert (error["rule"], error["policyRevision"]) == (rule, f"polrev_{entry.policy_revision}")
    assert (entry.payment_id, entry.tx) == (None, None)


# --- Limits, below, at and above


@pytest.mark.parametrize(
    ("limit", "rule"),
    [
        ("balance", "balance_covers_payment"),
        ("weekly_limit", "under_weekly_limit"),
        ("daily_limit", "under_daily_limit"),
        ("max_per_payment", "under_max_payment"),
    ],
)
@pytest.mark.parametrize(
    ("amount", "passes"), [("4.999999", True), ("5", True), ("5.000000", True), ("5.000001", False), ("6", False)]
)
def test_a_payment_up_to_a_limit_is_approved_and_above_it_is_422(api, service, *, limit, rule, amount, passes):
    agent = wealthy(**{limit: "5"})

    response = api.pay(body_for(agent, service, amount))

    if passes:
        assert response.status_code == 201
    else:
        assert_logged(agent, error_of(response, 422, "budget_exceeded"), rule)
        assert_nothing_moved(agent)


@pytest.mark.parametrize("limit", ["balance", "weekly_limit", "daily_limit"])
def test_payments_add_up_to_a_limit_and_not_beyond(api, service, limit):
    agent = wealthy(**{limit: "5"})

    answers = [api.pay(body_for(agent, service, amount)).status_code for amount in ("3", "2.000001", "2", "0.000001")]

    assert answers == [201, 422, 201, 422]


def test_a_refused_payment_does_not_count_as_spent(api, service):
    agent = wealthy(daily_limit="5")
    for _ in range(3):
        assert api.pay(body_for(agent, service, "5.01")).status_code == 422

    assert api.pay(body_for(agent, service, "5")).json()["spentToday"] == "5.00"


@pytest.mark.parametrize(
    ("limit", "rule"),
    [
        ("balance", "balance_covers_payment"),
        ("weekly_limit", "under_weekly_limit"),
        ("daily_limit", "under_daily_limit"),
        ("max_per_payment", "under_max_payment"),
    ],
)
def test_zero_lets_nothing_pass(api, service, limit, rule):
    agent = wealthy(**{limit: "0"})

    error = error_of(api.pay(body_for(agent, service, "0.000001")), 422, "budget_exceeded")

    assert_logged(agent, error, rule)
    assert error["allowedAt"] is None


# --- Which rule decides


FAULTS = {
    "agent_active": lambda agent, _body: pause_agent(agent.id),
    "service_approved": lambda _agent, body: body.update(service="nobody"),
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
    pause_agent(agent.id)
    assert api.pay(payment).status_code == 403
    resume_agent(agent.id)

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


# --- What cannot be co-signed or prepared


def lose_chain_state(_service):
    ChainState.objects.all().delete()


def let_chain_state_grow_stale(service):
    age = timedelta(seconds=86_400 + 10)
    ChainState.objects.filter(chain=service.chain).update(observed_at=utc_now() - age)


def disable_relayers(service):
    Relayer.objects.filter(chain=service.chain).update(is_enabled=False)


def derive_relayers_from_another_seed(service):
    for relayer in Relayer.objects.filter(chain=service.chain):
        Relayer.objects.filter(pk=relayer.pk).update(address=new_address())


def move_to_a_chain_that_is_not_served(service):
    Service.objects.filter(pk=service.pk).update(chain="eip155:1", approved_recipient=f"eip155:1:{service.address}")


@pytest.mark.parametrize(
    "trouble",
    [
        lose_chain_state,
        let_chain_state_grow_stale,
        disable_relayers,
        derive_relayers_from_another_seed,
        move_to_a_chain_that_is_not_served,
    ],
)
def test_a_chain_that_cannot_be_prepared_for_is_503_logged_and_nothing_moves(api, agent, service, trouble):
    trouble(service)

    response = api.pay(body_for(agent, service))

    assert_logged(agent, error_of(response, 503, "policy_signer_unavailable"), "policy_signer_available")
    assert int(response["Retry-After"]) >= 1
    assert_nothing_moved(agent)


def test_chain_state_is_good_up_to_its_age(agent, service):
    observed_at = ChainState.objects.get(chain=service.chain).observed_at
    age = timedelta(seconds=60)

    with pytest.raises(PolicySignerUnavailable):
        decide(agent, service, at=observed_at + age + 2 * MILLISECOND, max_chain_state_age=age)
    other = make_agent()
    assert decide(other, service, at=observed_at + age - MILLISECOND, max_chain_state_age=age).result == "approved"


def test_a_stopped_signer_is_503_logged_and_nothing_moves(api, agent, service):
    switch_signer(is_signing=False, by="test")

    response = api.pay(body_for(agent, service))

    assert_logged(agent, error_of(response, 503, "policy_signer_unavailable"), "policy_signer_available")
    assert int(response["Retry-After"]) >= 1
    assert_nothing_moved(agent)
    switch_signer(is_signing=True, by="test")
    assert api.pay(body_for(agent, service)).status_code == 201


class SignerThatSealsOnly:
    """A policy signer that vouches for the log and co-signs nothing."""

    def __init__(self, *, seals):
        self.seals = seals
        self.key_id = local_signer().key_id

    def sign_receipt(self, document):
        if not self.seals:
            raise SignerUnavailable("Away.")
        return local_signer().sign_receipt(document)

    def authorize(self, _digest):
        raise SignerUnavailable("Away.")


def test_a_signer_that_does_not_co_sign_leaves_a_blocked_entry(agent, service):
    with pytest.raises(PolicySignerUnavailable):
        decide(agent, service, signer=SignerThatSealsOnly(seals=True))

    assert [entry.rule for entry in LogEntry.objects.filter(agent=agent)] == ["policy_signer_available"]
    assert not Settlement.objects.filter(payment__agent=agent).exists()
    assert_nothing_moved(agent)


def test_a_signer_that_is_away_altogether_leaves_nothing(agent, service):
    with pytest.raises(PolicySignerUnavailable):
        decide(agent, service, signer=SignerThatSealsOnly(seals=False))

    assert not LogEntry.objects.filter(agent=agent).exists()
    assert_nothing_moved(agent)


def test_the_chain_is_woken_for_an_approved_payment_only(agent, service):
    woken: list[str] = []
    entry = decide(agent, service, wake=woken.append, key="k")
    decide(agent, service, wake=woken.append, key="k")
    with pytest.raises(BudgetExceeded):
        decide(agent, service, "11", wake=woken.append)

    assert (entry.result, woken) == ("approved", ["eip155:31337"])


# --- What a refusal tells


def test_a_refusal_by_the_balance_tells_what_remains(service):
    agent = wealthy(balance="7.5")

    details = refused(agent, service, "7.51")

    assert {name: details.get(name) for name in ("limit", "spent", "requested", "remaining", "allowedAt")} == {
        "limit": None, "spent": None, "requested": "7.51", "remaining": "7.50", "allowedAt": None,
    }  # fmt: skip
    assert "limit" not in details


def test_a_refusal_by_the_limit_of_a_payment_tells_the_limit(agent, service):
    details = refused(agent, service, "10.01")

    assert {name: details[name] for name in ("limit", "requested", "remaining", "allowedAt")} == {
        "limit": "10.00", "requested": "10.01", "remaining": "10.00", "allowedAt": None,
    }  # fmt: skip


@pytest.mark.parametrize(("limit", "window"), [("daily_limit", DAY), ("weekly_limit", WEEK)])
def test_a_refusal_by_a_window_tells_what_is_spent_and_when_it_fits(service, start, limit, window):
    agent = wealthy(**{limit: "10"})
    decide(agent, service, "7.5", at=start)

    details = refused(agent, service, "2.51", at=start + timedelta(hours=1))

    assert {name: details[name] for name in ("limit", "spent", "requested", "remaining", "allowedAt")} == {
        "limit": "10.00", "spent": "7.50", "requested": "2.51", "remaining": "2.50",
        "allowedAt": format_instant(start + window),
    }  # fmt: skip


@pytest.mark.parametrize("limit", ["daily_limit", "weekly_limit"])
def test_nothing_remains_of_a_limit_that_was_lowered_below_what_is_spent(service, start, limit):
    agent = wealthy()
    decide(agent, service, "8", at=start)
    lowered: dict[str, Any] = {limit: Decimal(5)}
    set_policy(agent.id, change=lambda limits: change(limits, **lowered), by="test")

    details = refused(agent, service, "1", at=start + MILLISECOND)

    assert (details["remaining"], details["spent"], details["policyRevision"]) == ("0.00", "8.00", "polrev_2")


@pytest.mark.parametrize(
    ("limits", "amount", "rule"),
    [
        ({"daily_limit": "10"}, "10.01", "under_daily_limit"),
        ({"weekly_limit": "10"}, "10.01", "under_weekly_limit"),
        ({"daily_limit": "10", "max_per_payment": "5"}, "6", "under_daily_limit"),
        ({"weekly_limit": "10", "daily_limit": "5"}, "6", "under_weekly_limit"),
    ],
)
def test_a_payment_that_never_fits_has_no_moment(service, start, limits, amount, rule):
    agent = wealthy(**limits)
    decide(agent, service, "5", at=start)

    details = refused(agent, service, amount, at=start + timedelta(hours=1))

    assert (details["rule"], details["allowedAt"]) == (rule, None)


# --- Windows


@pytest.mark.parametrize(("limit", "window"), [("daily_limit", DAY), ("weekly_limit", WEEK)])
def test_a_window_is_half_open(service, start, limit, window):
    agent = wealthy(**{limit: "10"})
    decide(agent, service, "10", at=start)

    # (now - window, now]: what was spent exactly one window ago is out, a millisecond later it is still in.
    assert refused(agent, service, at=start + window - MILLISECOND)["spent"] == "10.00"
    assert decide(agent, service, "10", at=start + window).result == "approved"


@pytest.mark.parametrize(("limit", "window"), [("daily_limit", DAY), ("weekly_limit", WEEK)])
def test_what_is_spent_in_this_very_millisecond_counts(service, start, limit, window):
    agent = wealthy(**{limit: "10"})
    decide(agent, service, "10", at=start)

    assert refused(agent, service, at=start)["spent"] == "10.00"


def test_a_window_rolls_and_knows_no_midnight(service):
    agent = wealthy(daily_limit="10")
    evening = (utc_now() - timedelta(days=30)).replace(hour=23, minute=59, second=0)
    decide(agent, service, "10", at=evening)

    assert refused(agent, service, at=evening + timedelta(minutes=2))["spent"] == "10.00"


def test_spent_today_falls_as_the_window_rolls(service, start):
    agent = wealthy()
    hours = [0, 1, 2, 24, 25]

    spent = [decide(agent, service, str(n + 1), at=start + timedelta(hours=hour)) for n, hour in enumerate(hours)]

    # 1; 1+2; 1+2+3; 2+3+4; 3+4+5
    assert [entry.explanation["spentToday"] for entry in spent] == ["1.00", "3.00", "6.00", "9.00", "12.00"]


@pytest.mark.parametrize(("limit", "window"), [("daily_limit", DAY), ("weekly_limit", WEEK)])
@pytest.mark.parametrize(
    ("amount", "waits_for"), [("1", 0), ("2", 1), ("2.5", 1), ("4", 2), ("9.5", 3), ("9.9", 4), ("10", 4)]
)
def test_a_payment_passes_at_allowed_at_and_not_a_millisecond_earlier(
    service, start, *, limit, window, amount, waits_for
):
    agent = wealthy(**{limit: "10"})
    moments = [start + timedelta(seconds=n, milliseconds=37 * n) for n in range(5)]
    for moment, spend in zip(moments, ("1", "1.5", "2", "5", "0.5"), strict=True):
        decide(agent, service, spend, at=moment)

    allowed_at = moments[waits_for] + window
    refusal = refused(agent, service, amount, at=moments[-1] + timedelta(minutes=5))

    assert refusal["allowedAt"] == format_instant(allowed_at)
    assert refused(agent, service, amount, at=allowed_at - MILLISECOND)["allowedAt"] == format_instant(allowed_at)
    assert decide(agent, service, amount, at=allowed_at).result == "approved"


def test_allowed_at_waits_for_both_windows_when_both_are_full(service, start):
    agent = wealthy(weekly_limit="20", daily_limit="10")
    decide(agent, service, "10", at=start)
    almost_a_week = start + WEEK - timedelta(hours=1)
    decide(agent, service, "10", at=almost_a_week)

    details = refused(agent, service, "5", at=almost_a_week + timedelta(minutes=1))

    assert details["rule"] == "under_weekly_limit"
    assert details["allowedAt"] == format_instant(almost_a_week + DAY)
    assert refused(agent, service, "5", at=almost_a_week + DAY - MILLISECOND)["rule"] == "under_daily_limit"
    assert decide(agent, service, "5", at=almost_a_week + DAY).result == "approved"


@pytest.mark.parametrize(("limit", "window"), [("daily_limit", DAY), ("weekly_limit", WEEK)])
def test_a_failed_payment_leaves_the_window_at_its_own_time(service, start, limit, window):
    agent = wealthy(**{limit: "10"})
    failed, kept = decide(agent, service, "6", at=start), decide(agent, service, "4", at=start + timedelta(hours=2))
    move_balance(
        lock_agent(agent.id),
        kind=MovementKind.RETURN,
        amount=Decimal(6),
        by="test",
        payment_id=failed.payment_id,
        spent_at=start,
    )

    assert Agent.objects.get(pk=agent.id).balance == 996
    assert refused(agent, service, "6.01", at=start + timedelta(hours=3))["spent"] == "4.00"
    # Once the original has left the window, it is not taken off a second time.
    assert refused(agent, service, "6.01", at=start + window + timedelta(hours=1))["spent"] == "4.00"
    assert decide(agent, service, "10", at=kept.created_at + window).result == "approved"


def test_a_limit_that_is_raised_holds_at_once(service, start):
    agent = wealthy(daily_limit="10")
    decide(agent, service, "10", at=start)
    refused(agent, service, "1", at=start + MILLISECOND)

    set_policy(agent.id, change=lambda limits: change(limits, daily_limit=Decimal(11)), by="test")

    assert decide(agent, service, "1", at=start + MILLISECOND).policy_revision == 2
