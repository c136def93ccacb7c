"""Faults of nodes, escrows and gas money, each planted for real: before a node, in the escrow, in the database."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from chains.rpc.transport import NodeAway
from foundation.kernel.assets import Asset
from foundation.kernel.times import format_instant, utc_now
from operators.doctor.diagnoses import State
from operators.doctor.nodes import find_disagreeing_nodes, find_faulty_nodes
from payments.models import ChainState
from payments.settling.chain_switch import LONG_AGO, stop_signing_on
from payments.settling.relayer_queue import read_relayer_queues
from policy.operations import switch_signer
from tests.operators.doctor.between import Between, Change, dated
from tests.operators.doctor.diagnosis import the_trouble, trouble_with, troubles
from tests.support.evm_escrow import as_owner, call, daily_cap, escrow, paused_escrow, rpc, token
from tests.support.fake_nodes import Answer, Node
from tests.support.local_ids import LOCALNET
from tests.support.localnets import EVM

pytestmark = pytest.mark.usefixtures("db")

NODE, SECRET = "evm-localnet, node 1 of 1", "a-key-of-the-provider"


@pytest.fixture(autouse=True)
def through(settings: Any) -> Iterator[Callable[..., Node]]:
    """Put a node between us and the EVM chain, which is the only one; gives a function that puts in another one."""
    made: list[Node] = []
    real = settings.CHAINS[LOCALNET]

    def put(*, beside: bool = False, **changes: Change) -> Node:
        made.append(Between(real.rpc_urls[0], **changes))
        urls = (*(settings.CHAINS[LOCALNET].rpc_urls if beside else ()), f"{made[-1].url}/{SECRET}")
        settings.CHAINS = {LOCALNET: replace(real, rpc_urls=urls)}
        return made[-1]

    put()
    yield put
    for node in made:
        node.close()


def test_a_node_of_another_chain(through):
    through(eth_chainId=lambda *_: "0x1")
    node, escrow = trouble_with("chains", NODE), trouble_with("chains", "mismatch evm-localnet")
    assert node.says == "It is of no use: it is of chain 1, not of 31337."
    assert "CHAIN_EVM_LOCALNET_RPC_URLS" in node.mend
    assert escrow.mend.startswith("Correct CHAIN_EVM_LOCALNET_RPC_URLS")


def test_a_node_that_refuses_our_key(through):
    through().respond = lambda _: (401, b"")
    found = troubles("chains")
    assert found[0].subject == NODE
    assert found[0].says == "It is of no use: HTTP 401."
    assert SECRET not in str(found)


def test_a_node_that_answers_garbage(through):
    garbage: Answer = (200, b"<html>a-key-of-the-provider</html>")
    through().respond = lambda _: garbage
    found = troubles("chains")
    assert found[0].subject == NODE
    assert found[0].mend.startswith("Correct or replace address 1 of CHAIN_EVM_LOCALNET_RPC_URLS")
    assert SECRET not in str(found)


def test_a_node_that_lags(through):
    through(eth_getBlockByNumber=dated(-600))
    found = trouble_with("chains", NODE)
    assert found.state == State.ERROR
    assert "is 10 min old: it lags, or the chain stands still" in found.says


def test_a_clock_of_this_machine_that_is_behind(through):
    through(eth_getBlockByNumber=dated(600))
    found = trouble_with("chains", NODE)
    assert "s in the future: this machine's clock is behind" in found.says
    assert "chrony" in found.mend


def test_a_node_that_answers_slowly(through):
    def slowly(said: Any, _asked: list[Any]) -> Any:
        time.sleep(3.5)
        return said

    through(eth_chainId=slowly)
    slow = [one for one in find_faulty_nodes() if "s to answer" in one.says]
    assert [(one.subject, one.state) for one in slow] == [(NODE, State.WARNING)]


def test_a_node_without_finality(through):
    through(eth_getBlockByNumber=lambda block, asked: None if asked[0] == "finalized" else dated(0)(block, asked))
    found = trouble_with("chains", NODE)
    assert "does not tell which block is final" in found.says
    assert "CHAIN_EVM_LOCALNET_FINALITY_DEPTH" in found.mend


def test_a_node_that_keeps_no_state(through):
    pruned = {"code": -32000, "message": "missing trie node"}
    through(eth_getCode=lambda code, asked: code if asked[1] == "latest" else pruned)
    found = the_trouble("chains")
    assert (found.subject, found.state) == (NODE, State.WARNING)
    assert "an archive node" in found.mend


def test_two_nodes_that_contradict_each_other(through):
    through(beside=True, eth_getBlockByNumber=lambda block, asked: dated(0)(block, asked) | {"hash": "0x" + "ab" * 32})
    found = trouble_with("chains", "evm-localnet, agreement")
    assert "Its nodes contradict each other about the final block" in found.says
    assert "docs/operate/lying-provider.md" in found.mend


def test_a_node_that_contradicts_two_others_is_named(through):
    through(beside=True, eth_getBlockByNumber=lambda block, asked: dated(0)(block, asked) | {"hash": "0x" + "ab" * 32})
    through(beside=True)
    found = trouble_with("chains", "evm-localnet, agreement")
    assert "is another one by node 2 than by the others: it is on a fork, or lies" in found.says
    assert found.mend.startswith("Put another provider's address in place of node 2: docs/operate/lying-provider.md")


def test_a_node_that_a_worker_has_caught_contradicting_the_others(through):
    through(beside=True)
    through(beside=True)
    seen = {"2": {"at": format_instant(utc_now()), "about": "block 7"}}
    ChainState.objects.filter(chain=LOCALNET).update(contradictions=seen)
    found = trouble_with("chains", "nodes evm-localnet")
    assert found.state == State.WARNING
    assert found.says.startswith("evm-localnet: node 2 of 3 contradicts the others about block 7.")


def test_a_node_that_does_not_give_the_block_to_compare_hides_no_other_chain(through, settings, monkeypatch):
    def refuse(*_: Any) -> str:
        raise NodeAway("it is busy")

    through(beside=True)
    settings.CHAINS |= {"another": settings.CHAINS[LOCALNET]}
    monkeypatch.setattr("chains.evm.node_health.read_block_hash", refuse)

    found = list(find_disagreeing_nodes())
    assert [one.state for one in found] == [State.WARNING, State.WARNING]
    assert found[0].says.endswith("it is busy.")


def test_a_node_over_the_network_in_the_clear(settings):
    served = settings.CHAINS[LOCALNET]
    # The same node by a name that does not say that it is this machine.
    settings.CHAINS = {LOCALNET: replace(served, rpc_urls=(served.rpc_urls[0].replace("127.0.0.1", "2130706433"),))}
    found = the_trouble("chains")
    assert (found.subject, found.state) == (NODE, State.WARNING)
    assert found.mend == "Write https:// in CHAIN_EVM_LOCALNET_RPC_URLS"


def test_an_escrow_that_is_paused():
    with paused_escrow():
        found = the_trouble("chains")
    assert "The escrow is paused" in found.says
    assert found.mend.startswith("Its owner calls unpause()")


def test_a_cap_that_is_zero():
    with daily_cap(Asset.EURC, 0):
        found = the_trouble("chains")
    assert (found.subject, found.state) == ("assets evm-localnet", State.WARNING)
    assert "daily cap for EURC is zero" in found.says
    assert found.mend.startswith("Its owner calls setDailyCap")


def test_a_cap_that_is_nearly_used_up(through):
    def pay(answer: Any, asked: list[Any]) -> Any:
        is_asked = asked[0]["data"] == call("paidToday(address)", token(Asset.EURC))
        return hex(cap - 1) if is_asked else answer

    cap = int(rpc("eth_call", {"to": escrow(), "data": call("dailyCap(address)", token(Asset.EURC))}, "latest"), 16)
    through(eth_call=pay)
    found = the_trouble("chains")
    assert (found.subject, found.state) == ("evm-localnet, EURC", State.WARNING)
    assert "Until midnight UTC, 0.000001 is left of a daily cap of" in found.says
    assert found.mend.startswith(f"Its owner calls setDailyCap({token(Asset.EURC)}, amount)")


def test_a_token_that_is_not_there(settings):
    served = settings.CHAINS[LOCALNET]
    settings.CHAINS = {LOCALNET: replace(served, tokens={**served.tokens, Asset.EURC: "0x" + "22" * 20})}
    found = trouble_with("chains", "assets evm-localnet")
    assert "There is no EURC at 0x2222" in found.says
    assert found.mend == "Correct CHAIN_EVM_LOCALNET_TOKENS"


def test_a_relayer_that_the_escrow_does_not_know():
    address = EVM.adapter.preparer.relayer_address(3)
    as_owner("setRelayer(address,bool)", address, False)
    try:
        found = the_trouble("chains")
    finally:
        as_owner("setRelayer(address,bool)", address, True)
    assert f"relayers are not enabled on the escrow, {address} first" in found.says
    assert "setRelayer(ADDRESS, true)" in found.mend


def test_an_escrow_that_belongs_to_somebody_else(settings):
    served = settings.CHAINS[LOCALNET]
    settings.CHAINS = {LOCALNET: replace(served, owner="0x" + "22" * 20)}
    found = the_trouble("chains")
    assert (found.subject, found.state) == ("evm-localnet, escrow", State.ERROR)
    assert found.says.endswith(f"not 0x{'22' * 20}. No release passes.")
    assert "CHAIN_EVM_LOCALNET_OWNER" in found.mend


def test_an_escrow_with_real_money_whose_owner_is_not_set(settings):
    served = settings.CHAINS[LOCALNET]
    settings.CHAINS = {LOCALNET: replace(served, chain=replace(served.chain, is_test=False))}
    found = trouble_with("chains", "evm-localnet, owner")
    assert found.state == State.WARNING
    assert found.mend == "Set CHAIN_EVM_LOCALNET_OWNER to who owns it"


def test_another_policy_signer(settings):
    settings.POLICY_SIGNER_SECP256K1_KEY = bytes([7] * 32)
    found = the_trouble("chains")
    assert "The escrow's policy signer is" in found.says
    assert "python manage.py rotate_keys evm-localnet" in found.mend


def test_an_address_without_an_escrow(settings):
    real = settings.CHAINS[LOCALNET]
    settings.CHAINS = {LOCALNET: replace(real, escrow="0x" + "11" * 20)}
    found = the_trouble("chains")
    assert "There is no escrow at 0x1111" in found.says
    assert found.mend.startswith("Correct CHAIN_EVM_LOCALNET_ESCROW")


def test_gas_money_that_is_too_little(settings):
    settings.MAX_IN_FLIGHT_PER_RELAYER = 10**12
    EVM.observe()
    found = trouble_with("chains", "relayers evm-localnet")
    assert found.state == State.ERROR
    assert "relayers are short of gas money: nothing is paid there." in found.says
    assert found.mend.startswith("Send the chain's own coin to the addresses of the relayers that are short")


def test_gas_money_that_will_soon_be_too_little(settings):
    settings.MAX_IN_FLIGHT_PER_RELAYER = _payments_of_the_first() // 2
    found = trouble_with("chains", "evm-localnet, relayer 0")
    assert found.state == State.WARNING
    assert "is soon out of rotation" in found.says


def test_a_relayer_that_is_empty_is_an_error_though_others_pay(through):
    EVM.observe()
    address = EVM.adapter.preparer.relayer_address(0)
    through(eth_getBalance=lambda said, asked: "0x0" if asked[0].lower() == address.lower() else said)
    found = trouble_with("chains", "evm-localnet, relayer 0")
    assert found.state == State.ERROR
    assert "it is empty" in found.says


def _payments_of_the_first() -> int:
    return next(queue.payments_now for queue in read_relayer_queues(LOCALNET, EVM.adapter))


def test_signing_that_was_stopped():
    switch_signer(is_signing=False, by="fiona")
    stop_signing_on(LOCALNET, reason="Something is odd.", by="fiona")
    signer, chain = trouble_with("chains", "signer"), trouble_with("chains", "chains evm-localnet")
    assert "fiona stopped it" in signer.says
    assert signer.mend.endswith("python manage.py start_signing")
    assert "Something is odd." in chain.says
    assert "python manage.py start_chain" in chain.mend


def test_a_chain_that_nobody_observes():
    ChainState.objects.filter(chain=LOCALNET).update(observed_at=LONG_AGO)
    found = the_trouble("chains")
    assert found.says.startswith("evm-localnet is not observed since")
    assert found.mend.startswith("See whether worker and beat run")
