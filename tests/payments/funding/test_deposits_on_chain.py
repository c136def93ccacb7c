"""Deposits on the embedded chains, and the command that makes them."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from eth_abi.abi import encode
from eth_account import Account
from eth_utils.crypto import keccak

from chains.catalogue import Chain, ServedChain, Vm
from chains.evm.adapter import EvmChain
from foundation.kernel.assets import Asset
from owner.keys import deposit_key
from payments.models import Deposit, DepositCursor, Payment
from payments.reconciling.escrow_history import search_history
from tests.support.credited_deposits import balance, problems
from tests.support.evm_escrow import call, escrow, rpc, send_as_owner, token
from tests.support.factories import decide, make_agent
from tests.support.invariants import check_agent
from tests.support.local_chain import Localnet
from tests.support.local_ids import LOCALNET
from tests.support.localnets import EVM, SOLANA


def search(localnet: Localnet) -> None:
    """Search a real chain up to its newest block, once that is final; it may be an old one."""
    newest = localnet.adapter.follower.find_finality().newest
    while not DepositCursor.objects.filter(chain=localnet.caip2, block_number__gte=newest).exists():
        localnet.mine()
        search_history(localnet.caip2, localnet.adapter)


ON_CHAIN = [(EVM, Asset.EURC), (SOLANA, Asset.SOL), (SOLANA, Asset.USDC), (SOLANA, Asset.PYUSD)]


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize(("localnet", "asset"), ON_CHAIN, ids=lambda one: getattr(one, "alias", one))
def test_a_deposit_on_the_chain_is_credited_to_the_agent_that_it_names(capsys, localnet, asset):
    localnet.drain()
    agent = make_agent(asset=asset)
    had = localnet.held(asset)

    call_command("deposit", agent.id, "3.25", "--chain", localnet.alias, "--no-wait")
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    search(localnet)

    assert localnet.held(asset) == had + 325 * 10 ** (asset.decimals - 2)
    assert printed == {
        "agent": agent.id, "amount": "3.25", "asset": asset, "chain": localnet.caip2, "tx": printed["tx"],
        "state": "included",
    }  # fmt: skip
    found = Deposit.objects.get(tx=printed["tx"])
    assert (found.agent_id, found.amount, found.asset) == (agent.id, Decimal("3.25"), asset)
    assert found.token == settings.CHAINS[localnet.caip2].tokens[asset]
    assert balance(agent) == Decimal("1003.25")
    DepositCursor.objects.filter(chain=localnet.caip2).update(block_number=found.block_number - 1)
    search(localnet)
    assert balance(agent) == Decimal("1003.25")
    check_agent(agent.id)
    assert problems(agent) == []


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("localnet", [EVM, SOLANA], ids=lambda one: one.alias)
def test_a_deposit_on_the_chain_that_names_nobody_is_kept_aside(capsys, localnet):
    call_command("deposit", "nobody", "0.5", "--asset", "USDC", "--chain", localnet.alias, "--no-wait")
    tx = json.loads(capsys.readouterr().out.splitlines()[-1])["tx"]
    search(localnet)

    found = Deposit.objects.get(tx=tx)
    assert (found.state, found.named_agent, found.amount) == ("aside", "nobody", Decimal("0.5"))


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("asset", [Asset.SOL, Asset.PYUSD])
def test_what_is_paid_on_the_chain_is_no_deposit(asset):
    SOLANA.drain()
    SOLANA.observe()
    search(SOLANA)
    payment = Payment.objects.get(pk=decide(make_agent(asset=asset), SOLANA.make_service(asset)).payment_id)
    before = Deposit.objects.filter(chain=SOLANA.caip2).count()

    SOLANA.drain()
    search(SOLANA)

    assert Payment.objects.get(pk=payment.pk).status == "settled"
    assert Deposit.objects.filter(chain=SOLANA.caip2).count() == before


def deposit_by_hand(name: bytes, units: int, address: str) -> str:
    owner = str(Account.from_key(deposit_key()).address)
    send_as_owner(address, call("mint(address,uint256)", owner, units))
    send_as_owner(address, call("approve(address,uint256)", escrow(), units))
    selector = keccak(text="deposit(string,address,uint256)")[:4]
    data = selector + encode(["bytes", "address", "uint256"], [name, address, units])
    return send_as_owner(escrow(), f"0x{data.hex()}")


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize(
    ("name", "kept"),
    [
        (b"\xff" * 1024, "\ufffd" * 1024),
        (b"nobody \x00\xf0\x9f\xa6\x84", "nobody \ufffd\U0001f984"),
        (b"x" * 1024, "x" * 1024),
    ],
    ids=["no text", "zero byte", "long"],
)
def test_a_deposit_on_the_chain_whose_name_is_any_bytes_is_kept_aside(name, kept):
    tx = deposit_by_hand(name, 5, token(Asset.PYUSD))
    search(EVM)

    found = Deposit.objects.get(tx=tx)
    assert (found.state, found.named_agent, found.amount) == ("aside", kept, Decimal("0.000005"))


@pytest.mark.usefixtures("committed")
def test_a_deposit_of_a_token_that_is_not_served_is_not_looked_for(settings):
    """Whoever wants to can make such a token: what is deposited of it is nobody's money here, and may be a flood."""
    served = settings.CHAINS[LOCALNET]
    tokens = {asset: address for asset, address in served.tokens.items() if asset != Asset.USDT}
    half_blind = EvmChain.of(replace(served, tokens=tokens), settings.RELAYER_SEED)
    search(EVM)

    tx = deposit_by_hand(b"somebody", 17, token(Asset.USDT))
    for _ in range(2):
        EVM.mine()
    search_history(LOCALNET, half_blind)

    assert not Deposit.objects.filter(tx=tx).exists()
    cursor = DepositCursor.objects.get(chain=LOCALNET)
    assert (cursor.block_number or 0) >= int(rpc("eth_getTransactionReceipt", tx)["blockNumber"], 16)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("localnet", [EVM, SOLANA], ids=lambda one: one.alias)
def test_the_command_waits_until_a_watcher_has_credited_the_deposit(capsys, localnet):
    agent, is_over = make_agent(), threading.Event()

    def work() -> None:
        try:
            while not is_over.wait(0.1):
                search_history(localnet.caip2, localnet.adapter)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(work)
        try:
            call_command("deposit", agent.id, "0.5", "--chain", localnet.alias)
        finally:
            is_over.set()
        watcher.result()

    written = capsys.readouterr()
    assert json.loads(written.out.splitlines()[-1])["state"] == "credited"
    assert "waiting until that is final" in written.err
    assert balance(agent) == Decimal("1000.5")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nobody", "1"], "There is no agent nobody: name the asset with --asset"),
        (["nobody", "1", "--asset", "USDC", "--chain", "base"], "The chain base is not served here"),
        (["nobody", "1", "--asset", "USDC", "--chain", "moon"], "The chain moon is not served here"),
        (["nobody", "0.0000001", "--asset", "USDC"], "6 decimals"),
        (["nobody", "1", "--asset", "SOL", "--chain", "evm-localnet"], "SOL is not served"),
        (["nobody", "0", "--asset", "USDC"], "zero amount"),
        (["x" * 1025, "1", "--asset", "USDC"], "Depositing: "),
    ],
)
def test_the_command_refuses_in_a_sentence(db, arguments, sentence):
    with pytest.raises(CommandError, match=sentence):
        call_command("deposit", *arguments, "--no-wait")


def test_the_command_takes_the_only_test_network_with_the_asset(db, capsys):
    agent = make_agent(asset=Asset.SOL)

    call_command("deposit", agent.id, "0.5", "--no-wait")

    assert json.loads(capsys.readouterr().out.splitlines()[-1])["chain"] == SOLANA.caip2


@pytest.mark.parametrize(
    ("tokens", "named"), [([{}], "none"), ([{Asset.SOL: "a"}, {Asset.SOL: "b"}], "devnet-0, devnet-1")]
)
def test_the_command_asks_for_the_chain_where_it_does_not_follow(db, settings, tokens, named):
    settings.CHAINS = {
        f"solana:{number}": ServedChain(
            Chain(f"solana:{number}", (f"devnet-{number}",), Vm.SOLANA, is_test=True), (), "", its
        )
        for number, its in enumerate(tokens)
    }

    with pytest.raises(CommandError, match=rf"^Name the chain with --chain. Test networks with SOL: {named}\.$"):
        call_command("deposit", "nobody", "1", "--asset", "SOL")


def test_the_command_needs_a_key(db, monkeypatch):
    monkeypatch.delenv("DEPOSIT_KEY")

    with pytest.raises(CommandError, match=r"^DEPOSIT_KEY is not set"):
        call_command("deposit", "nobody", "1", "--asset", "USDC")


def test_the_command_deposits_on_test_networks_only(db, settings):
    served = settings.CHAINS[LOCALNET]
    settings.CHAINS = {LOCALNET: replace(served, chain=replace(served.chain, is_test=False))}

    with pytest.raises(CommandError, match="is not a test network"):
        call_command("deposit", "nobody", "1", "--asset", "USDC", "--chain", "evm-localnet")


def test_the_command_refuses_a_node_that_is_on_another_chain(db, settings, monkeypatch):
    served = settings.CHAINS[LOCALNET]
    other = EvmChain.of(replace(served, chain=replace(served.chain, caip2="eip155:31338")), settings.RELAYER_SEED)
    monkeypatch.setattr("owner.wallets.served_chains", lambda: {LOCALNET: other})

    with pytest.raises(CommandError, match="is of chain 31337, not of 31338"):
        call_command("deposit", "nobody", "1", "--asset", "USDC")
