"""Deposits on the real Solana chain: made by a wallet, found in the escrow's accounts, credited to whom they name."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import connection
from solders.keypair import Keypair

from chains.port import ChainUnavailable
from chains.solana.adapter import SolanaChain
from foundation.environment.keys import held_key
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from owner.keys import deposit_key
from owner.solana.depositing import Wallet
from owner.wallets import make_wallet
from payments.models import Deposit
from payments.reconciling.escrow_history import search_history
from policy.models import Agent
from services.served_chains import served_chains, solana_chain
from tests.support.embedded_nodes import AWAY
from tests.support.factories import make_agent
from tests.support.local_ids import SOLANA_LOCALNET

# What `make_agent` begins with.
_FUNDS = Decimal(1000)


@contextmanager
def watching() -> Iterator[None]:
    """Let a watcher search the chain meanwhile."""
    chain, is_over = served_chains()[SOLANA_LOCALNET], threading.Event()

    def work() -> None:
        try:
            while not is_over.wait(0.1):
                search_history(SOLANA_LOCALNET, chain)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        watcher = pool.submit(work)
        try:
            yield
        finally:
            is_over.set()
        watcher.result()


def deposit(*arguments: str) -> None:
    call_command("deposit", *arguments, "--chain", "solana-localnet")


def balance(agent: Agent) -> Any:
    return Agent.objects.get(pk=agent.pk).balance


def wallet(
    chain: SolanaChain | None = None, secret: bytes | None = None, tell: Callable[[str], None] = print
) -> Wallet:
    chain = chain or solana_chain(SOLANA_LOCALNET)
    made = make_wallet(chain, secret or deposit_key() or b"", tell)
    assert isinstance(made, Wallet)
    return made


def changed(**changes: Any) -> SolanaChain:
    """Configure the real chain as it is, but for some changes."""
    chain = solana_chain(SOLANA_LOCALNET)
    return SolanaChain.of(replace(chain.served, **changes), held_key("RELAYER_SEED"), chain.signers)


@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("asset", [Asset.SOL, Asset.USDC, Asset.PYUSD])
def test_a_deposit_is_credited_to_the_agent_that_it_names(capsys, asset):
    agent = make_agent(asset=asset)

    with watching():
        deposit(agent.id, "0.5")

    written = capsys.readouterr()
    printed = json.loads(written.out.splitlines()[-1])
    assert printed == {
        "agent": agent.id, "amount": "0.50", "asset": asset, "chain": SOLANA_LOCALNET, "tx": printed["tx"],
        "state": "credited",
    }  # fmt: skip
    found = Deposit.objects.get(tx=printed["tx"])
    assert (found.agent_id, found.amount, found.token) == (
        agent.id, Decimal("0.5"), settings.CHAINS[SOLANA_LOCALNET].tokens[asset],
    )  # fmt: skip
    assert balance(agent) == _FUNDS + Decimal("0.5")


@pytest.mark.usefixtures("committed")
def test_a_deposit_that_names_no_agent_is_kept_aside(capsys):
    with watching():
        deposit("nobody at all", "0.000001", "--asset", "USDC")

    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    found = Deposit.objects.get(tx=printed["tx"])
    assert (printed["state"], found.named_agent, found.amount) == ("aside", "nobody at all", Decimal("0.000001"))


def test_a_new_wallet_is_given_sol_and_what_it_deposits_is_held():
    chain, told = solana_chain(SOLANA_LOCALNET), list[str]()
    before = chain.escrow.find_holdings(chain.follower.find_finality().block_number)[Asset.SOL]

    made = wallet(chain, os.urandom(32), told.append).deposit("agent", asset=Asset.SOL, amount=Decimal("0.25"))

    assert "Asking the network for SOL ..." in told
    while chain.follower.find_finality().block_number < made.block_number:
        threading.Event().wait(0.1)
    assert chain.escrow.find_holdings(made.block_number)[Asset.SOL] - before == Decimal("0.25")


def test_test_tokens_are_minted_by_who_may_and_by_nobody_else():
    told = list[str]()
    wallet(tell=told.append).deposit("agent", asset=Asset.EURC, amount=Decimal(1_500_000))
    assert "Minting test tokens ..." in told

    with pytest.raises(OperationRefused, match=r"has 0\.00 EURC, and may not mint it"):
        wallet(secret=os.urandom(32)).deposit("agent", asset=Asset.EURC, amount=Decimal(1))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nobody", "1"], "There is no agent nobody: name the asset with --asset"),
        (["nobody", "0.0000000001", "--asset", "SOL"], "9 decimals"),
        (["x" * 2000, "1", "--asset", "USDC"], "refuse the transaction"),
    ],
)
def test_the_command_refuses_in_a_sentence(db, arguments, sentence):
    with pytest.raises(CommandError, match=sentence):
        deposit(*arguments, "--no-wait")


def test_nothing_is_sent_where_it_would_be_nobodys():
    served = settings.CHAINS[SOLANA_LOCALNET]
    usdc = {asset: mint for asset, mint in served.tokens.items() if asset is Asset.USDC}
    with pytest.raises(OperationRefused, match="PYUSD is not served on solana-localnet"):
        wallet(changed(tokens=usdc)).deposit("agent", asset=Asset.PYUSD, amount=Decimal(1))

    no_mint = {Asset.USDC: served.escrow}
    with pytest.raises(OperationRefused, match="USDC cannot be held on solana-localnet"):
        wallet(changed(tokens=no_mint)).deposit("agent", asset=Asset.USDC, amount=Decimal(1))

    chain = solana_chain(SOLANA_LOCALNET)
    signers = replace(chain.signers, owner=Keypair().pubkey())
    without_escrow = SolanaChain.of(chain.served, held_key("RELAYER_SEED"), signers)
    with pytest.raises(OperationRefused, match=r"The escrow has no account for USDC: manage\.py deploy_escrow"):
        wallet(without_escrow).deposit("agent", asset=Asset.USDC, amount=Decimal(1))


def test_nothing_is_sent_on_another_chain_or_on_none():
    other = replace(settings.CHAINS[SOLANA_LOCALNET].chain, caip2="solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1")
    with pytest.raises(OperationRefused, match="is of the chain 344CYC6"):
        wallet(changed(chain=other)).deposit("agent", asset=Asset.SOL, amount=Decimal(1))

    with pytest.raises(ChainUnavailable):
        wallet(changed(rpc_urls=(AWAY,))).deposit("agent", asset=Asset.SOL, amount=Decimal(1))
