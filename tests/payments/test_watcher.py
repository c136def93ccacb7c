"""The watcher: what the money path knows of a chain, and what happens when that grows stale."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.conf import settings
from django.test import override_settings

from allowance.kernel.errors import PolicySignerUnavailable
from allowance.kernel.times import utc_now
from ledger.models import LogEntry
from payments.chains.base import ChainUnavailable
from payments.chains.evm import EvmChain
from payments.chains.registry import served_chains
from payments.models import ChainState, Payment, Relayer
from payments.operations import request_payment
from payments.settlement import observe
from payments.tasks import observe_chains
from policy.models import Agent
from policy.operations import switch_signer
from tests.chains import (
    LOCALNET,
    FakeChain,
    environment_of,
    make_fake_chain,
    make_request,
    make_service_on,
    rpc,
)
from tests.factories import make_agent, new_name

pytestmark = pytest.mark.django_db


# --- Observing --------------------------------------------------------------------------------------------------------
def test_observing_writes_down_what_the_chain_says_now():
    ChainState.objects.filter(chain=LOCALNET).delete()
    before = utc_now()

    observe(LOCALNET, served_chains()[LOCALNET])

    seen = ChainState.objects.get(chain=LOCALNET)
    assert before <= seen.observed_at <= utc_now()
    assert 0 <= seen.state["height"] <= int(rpc("eth_blockNumber"), 16)
    assert seen.state["maxFeePerGas"] > seen.state["maxPriorityFeePerGas"] > 0


def test_observing_again_replaces_what_was_seen():
    ChainState.objects.filter(chain=LOCALNET).update(state={"height": 0}, observed_at=utc_now() - timedelta(days=1))

    observe_chains()

    seen = ChainState.objects.get(chain=LOCALNET)
    assert utc_now() - seen.observed_at < timedelta(minutes=1)
    assert "maxFeePerGas" in seen.state


def test_observing_makes_the_relayers_known_each_with_its_nonce_on_the_chain():
    chain = FakeChain(new_name("fake"))

    observe(chain.name, chain)

    relayers = Relayer.objects.filter(chain=chain.name)
    assert [relayer.number for relayer in relayers] == list(range(settings.RELAYERS_PER_CHAIN))
    assert {(relayer.address, relayer.next_nonce) for relayer in relayers} == {
        (f"relayer-{number}", 7) for number in range(settings.RELAYERS_PER_CHAIN)
    }


def test_observing_leaves_the_nonces_of_known_relayers_alone():
    chain = make_fake_chain(relayers=2)
    Relayer.objects.filter(chain=chain.name).update(next_nonce=42)

    with override_settings(RELAYERS_PER_CHAIN=3):
        observe(chain.name, chain)
        observe(chain.name, chain)

    nonces = Relayer.objects.filter(chain=chain.name).order_by("number").values_list("next_nonce", flat=True)
    assert list(nonces) == [42, 42, 7]


def test_the_real_relayers_have_addresses_with_gas():
    for relayer in Relayer.objects.filter(chain=LOCALNET):
        assert relayer.address == served_chains()[LOCALNET].relayer_address(relayer.number)
        assert int(rpc("eth_getBalance", relayer.address, "latest"), 16) > 0


# --- A chain that is away ---------------------------------------------------------------------------------------------
def test_a_chain_that_is_away_leaves_what_was_seen_untouched():
    chain = make_fake_chain()
    before = ChainState.objects.values().get(chain=chain.name)
    chain.is_away = True

    with pytest.raises(ChainUnavailable):
        observe(chain.name, chain)

    assert ChainState.objects.values().get(chain=chain.name) == before


def test_a_real_node_that_is_away_leaves_what_was_seen_untouched():
    served = replace(settings.CHAINS[LOCALNET], rpc_urls=("http://127.0.0.1:9",))
    before = ChainState.objects.values().get(chain=LOCALNET)

    with pytest.raises(ChainUnavailable):
        observe(LOCALNET, EvmChain(served, settings.RELAYER_SEED))

    assert ChainState.objects.values().get(chain=LOCALNET) == before


def test_a_chain_that_is_away_does_not_keep_the_others_waiting(monkeypatch):
    away, there = make_fake_chain(), make_fake_chain()
    away.is_away = True
    old = utc_now() - timedelta(days=1)
    ChainState.objects.update(observed_at=old)
    monkeypatch.setattr("payments.tasks.served_chains", lambda: {away.name: away, there.name: there})

    observe_chains()

    assert ChainState.objects.get(chain=away.name).observed_at == old
    assert ChainState.objects.get(chain=there.name).observed_at > old


# --- Stale state ------------------------------------------------------------------------------------------------------
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("age", "is_paid"),
    [(MINUTE, True), (MINUTE + timedelta(milliseconds=1), False), (timedelta(days=1), False)],
    ids=["at the limit", "above", "far above"],
)
def test_what_was_seen_too_long_ago_is_not_paid_on(age, is_paid):
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
    observe_chains()
    paid = api.pay(payment, key)

    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "policy_signer_unavailable"
    assert refused["Retry-After"]
    assert (paid.status_code, "Idempotent-Replayed" in paid.headers) == (201, False)
    blocked, approved = LogEntry.objects.filter(agent=agent).order_by("id")
    assert (blocked.rule, blocked.idempotency_key) == ("policy_signer_available", None)
    assert (approved.result, approved.idempotency_key) == ("approved", key)
    assert refused.json()["error"]["logId"] == blocked.id


@pytest.mark.parametrize("trouble", ["no relayer", "disabled relayers", "signer out of service", "chain not served"])
def test_whatever_else_is_missing_is_a_logged_503_that_moves_nothing(trouble):
    chain = make_fake_chain(relayers=0 if trouble == "no relayer" else 2)
    agent, service = make_agent(), make_service_on(chain)
    environment = environment_of(FakeChain("another") if trouble == "chain not served" else chain)
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
