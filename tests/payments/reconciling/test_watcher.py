"""The watcher writes down what a chain says, unless that is away or the escrow's history is not known."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from django.conf import settings

from chains.evm.adapter import EvmChain
from chains.port import ChainUnavailable
from foundation.environment.keys import held_key
from foundation.kernel.errors import PolicySignerUnavailable
from foundation.kernel.times import utc_now
from payments.deciding.operations import request_payment
from payments.models import ChainState, DepositCursor, Relayer
from payments.reconciling.watcher import observe
from payments.settling.leases import hold
from payments.tasks import observe_chain, on_every_chain
from services.served_chains import served_chains
from tests.support.evm_escrow import rpc
from tests.support.factories import make_agent, new_name
from tests.support.fake_chain import FakeChain, make_fake_chain
from tests.support.local_ids import LOCALNET
from tests.support.localnets import SOLANA
from tests.support.payment_requests import environment_of, make_request, make_service_on, pay_on
from tests.support.scenes import HOUR, Scene, transaction_of
from tests.support.scripted_chain import outflow_of

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
    assert (seen.state["configuration"], seen.mismatch) == (SOLANA.adapter.preparer.configuration, "")
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


def test_nothing_is_paid_on_a_chain_whose_relayers_have_not_been_looked_at_yet(monkeypatch):
    chain, longer_ago = make_fake_chain(), utc_now() - timedelta(days=1)
    ChainState.objects.filter(chain=chain.name).update(observed_at=longer_ago)
    look, seen = chain.observe_relayers, []

    def observe_relayers(addresses):
        seen.append(ChainState.objects.get(chain=chain.name).observed_at)
        return look(addresses)

    monkeypatch.setattr(chain, "observe_relayers", observe_relayers)
    observe(chain.name, chain)

    assert seen == [longer_ago]
    assert ChainState.objects.get(chain=chain.name).observed_at > longer_ago


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
        assert relayer.address == served_chains()[LOCALNET].preparer.relayer_address(relayer.number)
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
        observe(LOCALNET, EvmChain.of(served, held_key("RELAYER_SEED")))

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
    assert "search" not in chain.asked


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
    assert "search" not in chain.asked
