"""Nothing is paid on a chain that is not as configured, was stopped, or was observed too long ago."""

from datetime import timedelta

import pytest
from django.conf import settings

from foundation.kernel.errors import PolicySignerUnavailable
from foundation.kernel.times import LARGEST_SKEW, utc_now
from ledger.models import LogEntry
from payments.deciding.operations import request_payment
from payments.models import ChainState, DepositCursor, Payment, Relayer
from payments.reconciling.watcher import CHECK_EVERY, observe
from payments.tasks import observe_chain
from policy.models import Agent
from policy.operations import switch_signer
from tests.support.factories import make_agent, new_name
from tests.support.fake_chain import FakeChain, make_fake_chain
from tests.support.local_ids import LOCALNET
from tests.support.payment_requests import environment_of, make_request, make_service_on
from tests.support.scenes import transaction_of

pytestmark = pytest.mark.django_db


# --- A chain that is not what is configured ---------------------------------------------------------------------------
def test_nothing_is_paid_on_a_chain_that_is_not_what_is_configured_until_it_is(caplog):
    chain = make_fake_chain()
    agent, service = make_agent(), make_service_on(chain)
    chain.mismatches = ["The node's chain id is 1.", "USDC has 18 decimals."]

    observe(chain.name, chain)
    with pytest.raises(PolicySignerUnavailable) as refused:
        request_payment(make_request(agent, service), environment_of(chain))

    assert ChainState.objects.get(chain=chain.name).mismatch == "The node's chain id is 1. USDC has 18 decimals."
    assert refused.value.details["rule"] == "policy_signer_available"
    entry = LogEntry.objects.get(agent=agent)
    assert (entry.result, entry.idempotency_key) == ("blocked", None)
    assert "not as it is configured" in str(entry.explanation)
    assert Agent.objects.get(pk=agent.pk).balance == 1000
    assert "USDC has 18 decimals." in caplog.text

    chain.mismatches = []
    _let_a_check_be_due(chain)
    observe(chain.name, chain)
    assert ChainState.objects.get(chain=chain.name).mismatch == ""
    request_payment(make_request(agent, service), environment_of(chain))


def test_a_chain_is_compared_with_the_configuration_now_and_then():
    chain = make_fake_chain()
    for _ in range(3):
        observe(chain.name, chain)
    assert chain.asked.count("find_mismatches") == 1
    _let_a_check_be_due(chain)
    observe(chain.name, chain)
    assert chain.asked.count("find_mismatches") == 2


def test_a_comparison_that_a_clock_dated_ahead_is_made_again():
    """Else nothing would be compared until then: clocks that jump together, and back, are not noticed."""
    chain = make_fake_chain()
    observe(chain.name, chain)
    ChainState.objects.filter(chain=chain.name).update(checked_at=utc_now() + timedelta(days=30))
    chain.mismatches = ["The escrow has another owner."]

    observe(chain.name, chain)

    seen = ChainState.objects.get(chain=chain.name)
    assert seen.mismatch == "The escrow has another owner."
    assert seen.checked_at is not None
    assert seen.checked_at <= utc_now()


def test_a_history_that_a_clock_dated_ahead_is_searched_again():
    chain = make_fake_chain()
    observe(chain.name, chain)
    DepositCursor.objects.filter(chain=chain.name).update(complete_at=utc_now() + timedelta(days=30))

    observe(chain.name, chain)

    complete_at = DepositCursor.objects.get(chain=chain.name).complete_at
    assert complete_at is not None
    assert complete_at <= utc_now()


def test_a_chain_that_was_never_seen_is_compared_before_it_is_paid_on():
    chain = FakeChain(new_name("fake"), mismatches=["Another chain."])
    observe(chain.name, chain)
    assert chain.asked[0] == "find_mismatches"
    assert ChainState.objects.get(chain=chain.name).mismatch == "Another chain."


def test_a_mismatch_that_is_long_is_cut():
    chain = make_fake_chain()
    chain.mismatches = ["x" * 400] * 2
    observe(chain.name, chain)
    assert len(ChainState.objects.get(chain=chain.name).mismatch) == 500


def test_nothing_is_paid_on_a_chain_that_was_stopped_and_the_watcher_does_not_start_it_again():
    chain = make_fake_chain()
    agent, service = make_agent(), make_service_on(chain)
    ChainState.objects.filter(chain=chain.name).update(stopped_reason="Money is missing.", stopped_at=utc_now())

    observe(chain.name, chain)
    with pytest.raises(PolicySignerUnavailable):
        request_payment(make_request(agent, service), environment_of(chain))

    assert "Signing is stopped" in str(LogEntry.objects.get(agent=agent).explanation)
    assert ChainState.objects.get(chain=chain.name).stopped_reason == "Money is missing."


def test_what_is_under_way_is_followed_on_a_chain_that_was_stopped(scene):
    payment = scene.pay()
    ChainState.objects.filter(chain=scene.chain.name).update(stopped_reason="Money is missing.")
    scene.broadcast()
    scene.chain.include(transaction_of(payment))
    assert scene.confirm() == 1


def _let_a_check_be_due(chain: FakeChain) -> None:
    ChainState.objects.filter(chain=chain.name).update(checked_at=utc_now() - 2 * CHECK_EVERY)


# --- Stale state ------------------------------------------------------------------------------------------------------
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("age", "is_paid"),
    [
        (MINUTE, True),
        (MINUTE + timedelta(milliseconds=1), False),
        (timedelta(days=1), False),
        (-LARGEST_SKEW, True),
        (-LARGEST_SKEW - timedelta(milliseconds=1), False),
        (-timedelta(days=30), False),
    ],
    ids=["at the limit", "above", "far above", "a clock is a little ahead", "ahead", "far ahead"],
)
def test_what_was_seen_too_long_ago_or_in_the_future_is_not_paid_on(age, is_paid):
    chain = make_fake_chain()
    agent, service = make_agent(), make_service_on(chain)
    now = ChainState.objects.get(chain=chain.name).observed_at + age
    request, environment = make_request(agent, service), environment_of(chain, now, MINUTE)

    if is_paid:
        request_payment(request, environment)
    else:
        with pytest.raises(PolicySignerUnavailable) as refused:
            request_payment(request, environment)
        assert refused.value.details["rule"] == "policy_signer_available"

    entry = LogEntry.objects.get(agent=agent)
    assert (entry.result == "approved") is is_paid
    assert Payment.objects.filter(agent=agent).exists() is is_paid
    assert Agent.objects.get(pk=agent.pk).balance == (999 if is_paid else 1000)
    assert not Relayer.objects.filter(chain=chain.name, next_nonce__gt=int(is_paid)).exists()


def test_a_chain_that_was_never_seen_is_not_paid_on():
    chain = make_fake_chain()
    ChainState.objects.filter(chain=chain.name).delete()

    with pytest.raises(PolicySignerUnavailable):
        request_payment(make_request(make_agent(), make_service_on(chain)), environment_of(chain))


def test_a_stale_chain_is_a_logged_503_over_http_and_the_key_works_once_it_is_seen_again(api, payment, agent):
    old = utc_now() - timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S + 1)
    ChainState.objects.filter(chain=LOCALNET).update(observed_at=old)
    key = new_name("key")

    refused = api.pay(payment, key)
    assert api.get("/readyz").status_code == 503
    observe_chain(LOCALNET)
    paid = api.pay(payment, key)

    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "policy_signer_unavailable"
    assert refused["Retry-After"]
    assert (paid.status_code, "Idempotent-Replayed" in paid.headers) == (201, False)
    blocked, approved = LogEntry.objects.filter(agent=agent).order_by("id")
    assert (blocked.rule, blocked.idempotency_key) == ("policy_signer_available", None)
    assert (approved.result, approved.idempotency_key) == ("approved", key)
    assert refused.json()["error"]["logId"] == blocked.id


@pytest.mark.parametrize("trouble", ["no relayer", "disabled relayers", "signer out of service"])
def test_whatever_else_is_missing_is_a_logged_503_that_moves_nothing(trouble):
    chain = make_fake_chain(relayers=0 if trouble == "no relayer" else 2)
    agent, service, environment = make_agent(), make_service_on(chain), environment_of(chain)
    if trouble == "disabled relayers":
        Relayer.objects.filter(chain=chain.name).update(is_enabled=False)
    if trouble == "signer out of service":
        switch_signer(is_signing=False, by="test")

    with pytest.raises(PolicySignerUnavailable):
        request_payment(make_request(agent, service), environment)

    entry = LogEntry.objects.get(agent=agent)
    assert (entry.result, entry.rule, entry.idempotency_key) == ("blocked", "policy_signer_available", None)
    assert Agent.objects.get(pk=agent.pk).balance == 1000
    assert not Relayer.objects.filter(chain=chain.name, next_nonce__gt=0).exists()
