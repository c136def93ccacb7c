"""Set-up: a chain that is not what is configured is not served."""

import json
from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import override_settings
from eth_abi.abi import encode
from eth_account import Account

from chains.evm.adapter import EvmChain
from chains.port import ChainUnavailable
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from owner.evm.sending import Sender
from payments.api.readiness import find_unready_lately
from payments.models import ChainState, Payment, Relayer
from payments.reconciling.watcher import observe
from payments.settling.relayers import find_rotation
from policy.models import Agent
from services.served_chains import configured_roles, evm_chain
from tests.operators.doctor.between import Between, Change
from tests.support.answers import error_of
from tests.support.commands import run
from tests.support.embedded_nodes import AWAY, deployer_key, known, node_of_chain, served
from tests.support.evm_escrow import as_owner, call, daily_cap, paused_escrow, rpc, token
from tests.support.fake_nodes import word
from tests.support.heartbeats import hearts_that_beat
from tests.support.local_ids import LOCALNET
from workshop.embedded.prepared import TOKEN_ARTIFACT

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hurried")]

STRANGER = Account.from_key("0x" + "77" * 32).address
OTHER_KEY = bytes.fromhex("88" * 32)
# Every node dates a block as the chain does.
UNCHANGED: dict[str, Change] = {"eth_getBlockByNumber": lambda said, _: said}


def mismatches(roles=None, **changes):
    """Compare the real chain with a configuration that differs from the real one."""
    roles = roles or configured_roles()
    chain = EvmChain.of(served(**changes), held_key("RELAYER_SEED"), policy_signer=roles.policy_signer)
    return chain.inspector.find_mismatches(roles.relayers)


def objections(**changes):
    """Say for each asset why it is not paid with on the real chain, configured otherwise; None: it is."""
    tokens = EvmChain.of(served(**changes), held_key("RELAYER_SEED")).observer.observe()["tokens"]
    return {asset: token["objection"] for asset, token in tokens.items()}


def compare():
    """Compare the real chain with the real configuration, as the watcher does."""
    chain = evm_chain(LOCALNET)
    return chain.inspector.find_mismatches(find_rotation(LOCALNET, chain))


# --- Mismatches -------------------------------------------------------------------------------------------------------
def test_a_chain_that_is_what_is_configured_has_no_mismatch():
    assert compare() == []


def test_a_node_of_another_chain_is_a_mismatch():
    (found,) = mismatches(chain=known("base"))
    assert found == "Node 1 of 1 is of chain 31337, not of 8453."


def test_one_node_of_another_chain_among_several_is_a_mismatch():
    with node_of_chain(1) as url:
        found = mismatches(rpc_urls=(*served().rpc_urls, url, AWAY))
    assert found == ["Node 2 of 3 is of chain 1, not of 31337."]


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    "lie",
    [
        {"eth_chainId": lambda *_: "0x1"},
        {"eth_call": lambda said, asked: word(1) if asked[0]["data"] == call("paused()") else said},
        {"eth_call": lambda said, asked: word(STRANGER) if asked[0]["data"] == call("policySigner()") else said},
        {"eth_getCode": lambda *_: "0x"},
    ],
    ids=["another chain", "paused", "another signer", "no escrow"],
)
def test_what_one_of_three_nodes_says_otherwise_is_no_mismatch(lie, place):
    real = served().rpc_urls[0]
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(closing(Between(real, **(UNCHANGED | (lie if place == one else {})))))
            for one in range(3)
        ]
        urls = tuple(node.url for node in nodes)
        chain = EvmChain.of(
            served(rpc_urls=urls), held_key("RELAYER_SEED"), policy_signer=configured_roles().policy_signer
        )
        assert chain.inspector.find_mismatches(configured_roles().relayers) == []
        chain.follower.find_finality()
        assert [one.node for one in chain.inspector.take_contradictions()] == [place + 1]
        # Of two, nobody can tell which one it is.
        found = mismatches(rpc_urls=(urls[place], urls[place - 1]))
    assert len(found) == 1


def test_a_node_that_is_away_is_no_mismatch():
    assert mismatches(rpc_urls=(AWAY, *served().rpc_urls)) == []


def test_nodes_that_are_all_away_say_nothing():
    with pytest.raises(ChainUnavailable):
        mismatches(rpc_urls=(AWAY,))


def test_a_node_that_cannot_tell_says_nothing():
    with node_of_chain(31337) as url, pytest.raises(ChainUnavailable):
        mismatches(rpc_urls=(url,))


@pytest.mark.parametrize("address", [STRANGER, "a token"])
def test_an_escrow_that_is_none_is_a_mismatch(address):
    address = token() if address == "a token" else address
    assert mismatches(escrow=address) == [f"There is no escrow at {address}."]


def test_another_policy_signer_is_a_mismatch():
    ours = configured_roles().policy_signer
    (found,) = mismatches(replace(configured_roles(), policy_signer=STRANGER))
    assert found == f"The escrow's policy signer is {ours}, ours is {STRANGER}."


def test_a_relayer_that_the_escrow_does_not_know_is_a_mismatch():
    roles = configured_roles()
    (found,) = mismatches(replace(roles, relayers=(*roles.relayers, STRANGER)))
    assert found.startswith(f"1 of 17 relayers are not enabled on the escrow, {STRANGER} first")


def test_a_relayer_that_is_disabled_on_the_escrow_is_a_mismatch_until_it_is_out_of_rotation():
    relayer = Relayer.objects.get(chain=LOCALNET, number=3)
    as_owner("setRelayer(address,bool)", relayer.address, False)
    try:
        (found,) = compare()
        assert f"1 of 16 relayers are not enabled on the escrow, {relayer.address} first" in found

        Relayer.objects.filter(pk=relayer.pk).update(is_enabled=False)
        assert compare() == []
    finally:
        as_owner("setRelayer(address,bool)", relayer.address, True)


def test_a_relayer_beyond_the_configured_number_is_compared_too():
    with override_settings(RELAYERS_PER_CHAIN=2):
        found = find_rotation(LOCALNET, evm_chain(LOCALNET))
        assert len(found) == Relayer.objects.filter(chain=LOCALNET).count() == 16


@pytest.mark.parametrize("address", [STRANGER, "the escrow"])
def test_a_token_that_is_none_takes_its_asset_out_of_service_and_not_the_chain(address):
    address = served().escrow if address == "the escrow" else address
    tokens = {**served().tokens, Asset.EURC: address}
    assert mismatches(tokens=tokens) == []
    found = objections(tokens=tokens)
    assert address in found["EURC"]
    assert "no EURC at" in found["EURC"] or "does not tell its decimals" in found["EURC"]
    assert {asset for asset, objection in found.items() if objection} == {"EURC"}


def test_a_token_with_other_decimals_takes_its_asset_out_of_service():
    artifact = json.loads(TOKEN_ARTIFACT.read_text())
    creation = bytes.fromhex(artifact["bytecode"].removeprefix("0x"))
    deployer = Sender(evm_chain(LOCALNET), deployer_key(), lambda _: None)
    receipt = deployer.send(
        b"", creation + encode(["string", "string", "uint8"], ["Dai", "DAI", 18]), deployer.next_nonce()
    )
    address = rpc("eth_getTransactionReceipt", receipt.tx)["contractAddress"]

    found = objections(tokens={**served().tokens, Asset.USDC: address})

    assert found["USDC"] == f"The USDC at {address} has 18 decimals, not 6."


def test_nothing_is_paid_on_a_paused_escrow():
    with paused_escrow():
        inspection = evm_chain(LOCALNET).inspector.inspect(configured_roles().relayers)
    assert inspection.contracts is not None
    assert inspection.contracts.is_paused
    assert inspection.find_mismatches() == ["The escrow is paused: its owner lets it go on (unpause)."]
    assert compare() == []


def test_one_token_without_a_daily_cap_is_out_of_service_and_none_with_one_is_a_mismatch():
    with daily_cap(Asset.EURC, 0):
        assert mismatches() == []
        assert objections()["EURC"] == "The escrow's daily cap for EURC is zero: its owner sets it (setDailyCap)."
        (found,) = mismatches(tokens={Asset.EURC: token(Asset.EURC)})
        assert "daily cap is zero for every token" in found


# --- A chain that does not match is not paid on -----------------------------------------------------------------------
def look_again():
    """Let the last comparison be too old, and look at the chain with what is configured now."""
    ChainState.objects.filter(chain=LOCALNET).update(checked_at=utc_now() - timedelta(minutes=2))
    observe(LOCALNET, evm_chain(LOCALNET))


def test_a_chain_with_another_policy_signer_refuses_payments_until_it_matches(api, anonymous, agent, payment):
    with override_settings(POLICY_SIGNER_SECP256K1_KEY=OTHER_KEY):
        look_again()

    error_of(api.pay(payment), 503, "policy_signer_unavailable")
    assert not Payment.objects.filter(agent=agent).exists()
    assert Agent.objects.get(pk=agent.pk).balance == 1000
    assert anonymous.get("/readyz").json()["checks"]["evm-localnet"] == "not what is configured"

    look_again()
    find_unready_lately.cache_clear()

    assert api.pay(payment).status_code == 201
    with hearts_that_beat():
        assert anonymous.get("/readyz").status_code == 200


# --- manage.py chains -------------------------------------------------------------------------------------------------
def test_the_command_shows_a_chain_that_matches():
    lines, error = run("chains")

    chain, solana = json.loads(lines[-1])["chains"]
    assert (solana["alias"], solana["nodesAnswering"], solana["mismatches"]) == ("solana-localnet", 1, [])
    assert [one["objection"] for one in solana["tokens"]] == [None] * len(solana["tokens"])
    assert error is None
    assert (chain["chain"], chain["alias"], chain["nodes"], chain["nodesAnswering"]) == (LOCALNET, "evm-localnet", 1, 1)
    assert (chain["escrow"], chain["policySigner"]) == (served().escrow, configured_roles().policy_signer)
    assert (chain["relayersEnabled"], chain["paused"], chain["mismatches"]) == (16, False, [])
    assert {one["asset"]: one["decimals"] for one in chain["tokens"]} == dict.fromkeys(served().tokens, 6)
    assert chain["finalBlock"] <= int(rpc("eth_blockNumber"), 16)
    shown = "\n".join(lines[:-1])
    for part in (
        "1 of 1 answer",
        served().escrow,
        "ours",
        "16 of 16 enabled",
        "6 decimals",
        "not paused",
        "finalized",
        "matches",
    ):
        assert part in shown, part


def test_the_command_fails_for_a_chain_that_does_not_match_and_shows_it_all_the_same():
    with override_settings(POLICY_SIGNER_SECP256K1_KEY=OTHER_KEY), paused_escrow():
        lines, error = run("chains")

    chain, _ = json.loads(lines[-1])["chains"]
    assert "Nothing is paid on evm-localnet." in error
    assert "policy signer" in chain["mismatches"][0]
    assert chain["paused"] is True
    assert "paused" in "\n".join(lines[:-1])


def test_the_command_fails_when_no_node_answers_and_tells_no_address_of_a_node(caplog):
    url = "http://127.0.0.1:9/secret-value"
    with override_settings(CHAINS={LOCALNET: served(rpc_urls=(url,))}):
        lines, error = run("chains")

    (chain,) = json.loads(lines[-1])["chains"]
    assert (chain["nodes"], chain["nodesAnswering"]) == (1, 0)
    assert chain["mismatches"]
    assert "secret-value" not in "\n".join(lines) + error + caplog.text
