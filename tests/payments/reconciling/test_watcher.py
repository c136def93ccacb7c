"""The watcher: what the money path knows of a chain, and what happens when that grows stale."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.conf import settings

from allowance.environment.keys import held_key
from allowance.kernel.errors import PolicySignerUnavailable
from allowance.kernel.times import LARGEST_SKEW, utc_now
from chains.evm.adapter import EvmChain
from chains.port import ChainUnavailable
from ledger.models import LogEntry
from payments.deciding.operations import request_payment
from payments.models import ChainState, DepositCursor, Payment, Relayer
from payments.reconciling.watcher import CHECK_EVERY, observe
from payments.settling.leases import hold
from payments.tasks import observe_chain, on_every_chain
from policy.models import Agent
from policy.operations import switch_signer
from services.served_chains import served_chains
from tests.support.chains import (
    LOCALNET,
    FakeChain,
    environment_of,
    make_fake_chain,
    make_request,
    make_service_on,
    outflow_of,
    pay_on,
    rpc,
)
from tests.support.factories import make_agent, new_name
from tests.support.localnets import SOLANA
from tests.support.scenes import HOUR, Scene, transaction_of

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


def test_observing_writes_down_what_a_chain_without_nonces_says_now():
    ChainState.objects.filter(chain=SOLANA.caip2).delete()
    before = utc_now()

    SOLANA.observe()

    seen = ChainState.objects.get(chain=SOLANA.caip2)
    assert before <= seen.observed_at <= utc_now()
    assert (seen.state["configuration"], seen.mismatch) == (SOLANA.adapter.configuration, "")
    assert 0 < seen.state["slot"] <= int(SOLANA.rpc("getSlot", {"commitment": "processed"}))
    assert seen.state["lastValidBlockHeight"] > SOLANA.final_height
    assert seen.state["tokens"].keys() == {"SOL", "USDC", "USDT", "PYUSD", "EURC"}
    (relayer,) = Relayer.objects.filter(chain=SOLANA.caip2)
    assert (relayer.number, relayer.next_nonce, relayer.is_funded) == (0, None, True)


def test_observing_again_replaces_what_was_seen():
    ChainState.objects.filter(chain=LOCALNET).update(state={"height": 0}, observed_at=utc_now() - timedelta(days=1))

    observe_chain(LOCALNET)

    seen = ChainState.objects.get(chain=LOCALNET)
    assert utc_now() - seen.observed_at < timedelta(minutes=1)
    assert "maxFeePerGas" in seen.state


def test_observing_makes_the_relayers_known_each_with_its_nonce_on_the_chain():
    chain = FakeChain(new_name("fake"), mined={"relayer-1": 7})

    observe(chain.name, chain)

    relayers = Relayer.objects.filter(chain=chain.name)
    assert [relayer.number for relayer in relayers] == list(range(settings.RELAYERS_PER_CHAIN))
    assert {relayer.address: relayer.next_nonce for relayer in relayers} == {
        f"relayer-{number}": 7 * (number == 1) for number in range(settings.RELAYERS_PER_CHAIN)
    }


def test_observing_sees_to_relayers_and_to_what_is_stuck():
    scene = Scene()
    scene.skip_nonce()
    payment = scene.pay()
    observe(scene.chain.name, scene.chain)
    scene.broadcast()
    scene.let_pass(HOUR / 2)

    observe(scene.chain.name, scene.chain)

    assert [row.nonce for row in scene.fillers()] == [0, 0]  # the gap, and its head with a higher fee
    assert transaction_of(payment).nonce == 1
    seen_at = scene.relayer().seen_at
    assert seen_at
    assert seen_at > utc_now() - timedelta(minutes=1)


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
        observe(LOCALNET, EvmChain(served, held_key("RELAYER_SEED")))

    assert ChainState.objects.values().get(chain=LOCALNET) == before


def test_a_chain_that_is_away_is_a_warning_and_does_not_keep_the_others_waiting(monkeypatch, caplog):
    away, there = make_fake_chain(), make_fake_chain()
    monkeypatch.setattr("payments.tasks.served_chains", lambda: {away.name: away, there.name: there})
    observe_chain(away.name)
    away.is_away = True
    old = utc_now() - timedelta(days=1)
    ChainState.objects.filter(chain__in=[away.name, there.name]).update(observed_at=old)

    observe_chain(away.name)
    observe_chain(there.name)

    assert ChainState.objects.get(chain=away.name).observed_at == old
    assert ChainState.objects.get(chain=there.name).observed_at > old
    assert f"observe on {away.name} will be tried again" in caplog.text


def test_the_clock_rings_for_every_chain_by_itself(monkeypatch):
    rung = []
    monkeypatch.setattr("payments.tasks.served_chains", lambda: {"a": None, "b": None})
    monkeypatch.setattr(
        "payments.tasks.current_app.send_task", lambda task, arguments, **_options: rung.append((task, arguments))
    )
    on_every_chain("payments.tasks.sweep_payments")
    assert rung == [("payments.tasks.sweep_payments", ("a",)), ("payments.tasks.sweep_payments", ("b",))]


def test_what_one_worker_does_another_does_not_do_at_the_same_time(monkeypatch):
    chain = make_fake_chain()
    monkeypatch.setattr("payments.tasks.served_chains", lambda: {chain.name: chain})
    observe_chain(chain.name)  # this process has searched the escrow's history now
    chain.asked.clear()
    with hold(f"observe {chain.name}"):
        observe_chain(chain.name)
    assert chain.asked == []
    observe_chain(chain.name)
    assert "observe" in chain.asked


# --- Not before the escrow's history is known -------------------------------------------------------------------------
def observed_at(chain: FakeChain) -> datetime:
    return ChainState.objects.get(chain=chain.name).observed_at


def test_a_process_observes_nothing_before_it_has_searched_the_history_itself(monkeypatch):
    """However fresh all seems to be: the database may have been set back just now."""
    chain = make_fake_chain()
    observe(chain.name, chain)
    monkeypatch.setattr("payments.tasks.served_chains", lambda: {chain.name: chain})
    chain.finalise(150)
    chain.contradicted = {140}
    before = observed_at(chain)

    observe_chain(chain.name)
    assert observed_at(chain) == before
    with hold(f"search_history {chain.name}"):
        observe_chain(chain.name)
    assert observed_at(chain) == before
    chain.contradicted = set()
    observe_chain(chain.name)
    assert observed_at(chain) > before
    chain.asked.clear()
    observe_chain(chain.name)
    assert "search_escrow" not in chain.asked


def test_what_the_escrow_did_meanwhile_is_known_before_anything_is_paid():
    """A backup was restored: what was signed after it is found first, and nothing is signed where it is strange."""
    chain = make_fake_chain()
    observe(chain.name, chain)
    agent, service = make_agent(), make_service_on(chain)
    payment = pay_on(chain, agent, service)
    chain.outflows.append(outflow_of(payment, "0x1", 130, escrow_id="of nobody"))
    chain.finalise(150)
    DepositCursor.objects.filter(chain=chain.name).update(complete_at=utc_now() - timedelta(days=1))

    observe(chain.name, chain)

    assert DepositCursor.objects.get(chain=chain.name).block_number == 150
    with pytest.raises(PolicySignerUnavailable):
        request_payment(make_request(agent, service), environment_of(chain))
    assert "0x1" in ChainState.objects.get(chain=chain.name).stopped_reason


def test_a_history_that_cannot_be_searched_leaves_what_was_seen_untouched():
    chain = make_fake_chain()
    before = observed_at(chain)
    chain.contradicted = {50}
    with pytest.raises(ChainUnavailable):
        observe(chain.name, chain)
    assert observed_at(chain) == before


def test_a_history_that_was_searched_lately_is_not_searched_by_the_watcher():
    chain = make_fake_chain()
    observe(chain.name, chain)
    chain.asked.clear()
    observe(chain.name, chain)
    assert "search_escrow" not in chain.asked


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
