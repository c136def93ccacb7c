"""`manage.py deploy_escrow` on Solana: what it prints is what is there, and running it again changes nothing."""

import io
import json
import os
from dataclasses import replace

import pytest
from django.conf import settings
from django.test import override_settings
from solders.keypair import Keypair

from allowance.embedded import rpc
from allowance.kernel.assets import Asset
from payments.chains.registry import solana_chain
from tests.commands import run
from tests.nodes import AWAY, known
from tests.payments.test_deploy_escrow import STRANGER, deploy_in_process_of_its_own

SOLANA = known("solana-localnet")
SYSTEM = "11111111111111111111111111111111"
SOL = 10**9


def served(**changes):
    return replace(settings.CHAINS[SOLANA.caip2], **changes)


def ask(method, *params):
    return rpc.request(served().rpc_urls[0], method, *params)


class Keys:
    """Keys of their own; the relayer has SOL."""

    def __init__(self, lamports=SOL):
        self.seed, self.policy = os.urandom(64), os.urandom(32)
        self.relayer = str(Keypair.from_seed_and_derivation_path(self.seed, "m/44'/501'/0'/0'").pubkey())
        self.policy_signer = str(Keypair.from_seed(self.policy).pubkey())
        ask("dev_setAccount", self.relayer, {"lamports": lamports, "owner": SYSTEM})

    def deploy(self, *arguments, **changes):
        """Run the command with these keys on a chain without an escrow; returns what `run` does."""
        chain = served(**{"escrow": "1" * 32, **changes})
        with self.configured(chain):
            return run("deploy_escrow", chain.chain.alias, *arguments)

    def configured(self, chain):
        return override_settings(
            RELAYER_SEED=self.seed, POLICY_SIGNER_SOLANA_KEY=self.policy, CHAINS={chain.chain.caip2: chain}
        )

    @property
    def lamports(self):
        return ask("getBalance", self.relayer, {"commitment": "confirmed"})["value"]

    def slot_of(self, tx):
        (status,) = ask("getSignatureStatuses", [tx], {"searchTransactionHistory": True})["value"]
        return status["slot"]

    @property
    def is_untouched(self):
        return ask("getSignaturesForAddress", self.relayer, {"commitment": "confirmed"}) == []


@pytest.fixture
def keys():
    return Keys()


def environment_of(keys, **changes):
    return {
        "RELAYER_SEED": keys.seed.hex(),
        "POLICY_SIGNER_SOLANA_KEY": keys.policy.hex(),
        "CHAIN_SOLANA_LOCALNET_RPC_URLS": served().rpc_urls[0],
        "CHAIN_SOLANA_LOCALNET_TOKENS": ",".join(
            f"{asset}={mint}" for asset, mint in served().tokens.items() if asset is not Asset.SOL
        ),
        # Nobody but the EVM needs it.
        "DEPLOYER_KEY": "",
        **changes,
    }


def test_an_escrow_is_made_before_one_is_configured_and_then_the_chain_is_what_is_configured(keys):
    before = ask("getSlot", {"commitment": "confirmed"})

    done = deploy_in_process_of_its_own("solana-localnet", **environment_of(keys))

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    result = json.loads(lines[-1])
    escrow, slot = result["escrow"], result["block"]
    assert lines[:-1] == [f"CHAIN_SOLANA_LOCALNET_ESCROW={escrow}", f"CHAIN_SOLANA_LOCALNET_FIRST_BLOCK={slot}"]
    (created,) = ask("getSignaturesForAddress", escrow, {"commitment": "confirmed"})
    assert (created["signature"], created["err"]) == (result["tx"], None)
    assert before <= slot <= created["slot"]
    assert (result["chain"], result["relayer"], result["policySigner"]) == (
        SOLANA.caip2,
        keys.relayer,
        keys.policy_signer,
    )
    with keys.configured(served(escrow=escrow)):
        assert solana_chain(SOLANA.caip2).inspect().find_mismatches() == result["mismatches"] == []
    for secret in (keys.seed.hex(), keys.policy.hex(), served().rpc_urls[0]):
        assert secret not in done.stdout + done.stderr


def test_where_to_deposit_is_told_and_an_account_of_the_escrow(keys):
    lines, error = keys.deploy()

    assert error is None
    result = json.loads(lines[-1])
    assert {token["asset"] for token in result["tokens"]} == set(served().tokens)
    for token in result["tokens"]:
        account = ask("getAccountInfo", token["depositAddress"], {"encoding": "base64", "commitment": "confirmed"})[
            "value"
        ]
        assert account["owner"] == token["program"]


def test_running_it_again_changes_nothing_and_finds_the_first_block_again(keys):
    first, _ = keys.deploy()
    lamports = keys.lamports

    again, error = keys.deploy()

    assert error is None
    assert keys.lamports == lamports
    before, after = json.loads(first[-1]), json.loads(again[-1])
    assert again[:-1] == [
        f"CHAIN_SOLANA_LOCALNET_ESCROW={before['escrow']}",
        f"CHAIN_SOLANA_LOCALNET_FIRST_BLOCK={after['block']}",
    ]
    assert after["tx"] == ""
    assert before["block"] <= after["block"] == keys.slot_of(before["tx"])


def test_what_is_missing_is_made_by_another_run_whose_first_block_is_that_of_the_first(keys):
    first, _ = keys.deploy(tokens={Asset.SOL: served().tokens[Asset.SOL]})

    lines, error = keys.deploy()

    assert error is None
    result = json.loads(lines[-1])
    assert result["tx"]
    assert result["mismatches"] == []
    assert result["block"] == keys.slot_of(json.loads(first[-1])["tx"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--owner", STRANGER], "--owner"), (["--daily-cap", "USDC=1"], "--daily-cap")],
)
def test_an_owner_or_a_cap_is_refused_before_anything_is_sent(keys, arguments, said):
    lines, error = keys.deploy(*arguments)

    assert f"{said}: An escrow on Solana has no owner and no cap" in error
    assert not lines
    assert keys.is_untouched


def test_a_relayer_that_cannot_pay_is_told_what_it_takes():
    poor = Keys(lamports=SOL // 100)

    lines, error = poor.deploy()

    assert f"{poor.relayer} has 0.01 SOL, and may need 0.0" in error
    assert not lines
    assert poor.is_untouched


def test_a_policy_signer_that_is_not_configured_is_named(keys):
    done = deploy_in_process_of_its_own("solana-localnet", **environment_of(keys, POLICY_SIGNER_SOLANA_KEY=""))

    assert done.returncode == 1
    assert "POLICY_SIGNER_SOLANA_KEY is not set." in done.stderr
    assert "Traceback" not in done.stderr
    assert keys.is_untouched


@pytest.mark.parametrize(
    ("typed", "arguments", "said"),
    [
        ("no\n", [], "Nothing was deployed."),
        ("", [], "--yes"),
        # This node answers nothing: what comes after the question is the first that fails.
        ("solana\n", [], "No node answered"),
        ("", ["--yes"], "No node answered"),
    ],
)
def test_a_chain_with_real_money_asks_first(keys, monkeypatch, typed, arguments, said):
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))

    _, error = keys.deploy(*arguments, chain=known("solana"), rpc_urls=(AWAY,))

    assert said in error
