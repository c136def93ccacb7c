"""`manage.py deploy_escrow` on Solana: what it prints is what is there, and running it again changes nothing."""

import io
import json
import os
from dataclasses import replace

import pytest
from django.conf import settings
from django.test import override_settings
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.token.constants import TOKEN_PROGRAM_ID

from foundation.kernel.assets import Asset
from owner.tests.test_deploy_escrow_evm import STRANGER, deploy_in_process_of_its_own
from services.served_chains import solana_chain
from tests.support.commands import run
from tests.support.embedded_nodes import AWAY, known
from workshop.localnet import rpc

SOLANA = known("solana-localnet")
SYSTEM = "11111111111111111111111111111111"
SOL = 10**9

# What a deployment leaves in the audit is taken back.
pytestmark = pytest.mark.django_db


def served(**changes):
    return replace(settings.CHAINS[SOLANA.caip2], **changes)


def ask(method, *params):
    return rpc.request(served().rpc_urls[0], method, *params)


class Keys:
    """Keys of their own; the relayer has SOL."""

    def __init__(self, lamports=SOL):
        self.seed, self.policy = os.urandom(64), os.urandom(32)
        self.relayer = str(Keypair.from_seed_and_derivation_path(self.seed, "m/44'/501'/0'/0'").pubkey())
        self.policy_signer, self.owner = str(Keypair.from_seed(self.policy).pubkey()), str(Keypair().pubkey())
        ask("dev_setAccount", self.relayer, {"lamports": lamports, "owner": SYSTEM})

    def deploy(self, *arguments, **changes):
        """Run the command for our owner on a chain without an escrow; returns what `run` does."""
        return self.run("--owner", self.owner, *arguments, **changes)

    def run(self, *arguments, **changes):
        chain = served(**{"escrow": "1" * 32, "owner": "1" * 32, **changes})
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

    done = deploy_in_process_of_its_own("solana-localnet", "--owner", keys.owner, **environment_of(keys))

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    result = json.loads(lines[-1])
    escrow, slot = result["escrow"], result["block"]
    assert lines[:-1] == [
        f"CHAIN_SOLANA_LOCALNET_ESCROW={escrow}",
        f"CHAIN_SOLANA_LOCALNET_OWNER={keys.owner}",
        f"CHAIN_SOLANA_LOCALNET_FIRST_BLOCK={slot}",
    ]
    (created,) = ask("getSignaturesForAddress", escrow, {"commitment": "confirmed"})
    assert (created["signature"], created["err"]) == (result["tx"], None)
    assert before <= slot <= created["slot"]
    assert (result["chain"], result["relayer"], result["policySigner"], result["owner"]) == (
        SOLANA.caip2,
        keys.relayer,
        keys.policy_signer,
        keys.owner,
    )
    with keys.configured(served(escrow=escrow, owner=keys.owner)):
        assert solana_chain(SOLANA.caip2).inspector.inspect([]).find_mismatches() == result["mismatches"] == []
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
        f"CHAIN_SOLANA_LOCALNET_OWNER={keys.owner}",
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


def test_another_owner_has_an_escrow_of_its_own(keys):
    first, _ = keys.deploy()
    other = str(Keypair().pubkey())

    lines, error = keys.run("--owner", other, escrow=json.loads(first[-1])["escrow"], owner=keys.owner)

    assert error is None
    result = json.loads(lines[-1])
    assert (result["owner"], result["mismatches"]) == (other, [])
    assert result["escrow"] != json.loads(first[-1])["escrow"]


def off_the_curve(keys):
    return str(Pubkey.find_program_address([os.urandom(32)], Pubkey.default())[0])


BAD_OWNERS = {
    "nobody": (None, "--owner: An escrow on Solana has an owner"),
    "an address on an EVM chain": (lambda _: STRANGER, "--owner: An address on Solana is 32 bytes in base58."),
    "no address": (lambda _: "0OIl", "--owner: An address on Solana is 32 bytes in base58."),
    "with its chain": (lambda keys: f"solana:{keys.owner}", "--owner: "),
    "zero": (lambda _: "1" * 32, "--owner: This is a program"),
    "a program": (lambda _: str(TOKEN_PROGRAM_ID), "--owner: This is a program"),
    "a vault": (off_the_curve, "No key can sign for the owner"),
    "the relayer": (lambda keys: keys.relayer, "one alone would move everything"),
    "the policy signer": (lambda keys: keys.policy_signer, "one alone would move everything"),
}


@pytest.mark.parametrize(("owner", "said"), BAD_OWNERS.values(), ids=BAD_OWNERS)
def test_an_owner_that_is_none_is_refused_before_anything_is_sent(keys, owner, said):
    lines, error = keys.run() if owner is None else keys.run("--owner", owner(keys))

    assert said in error
    assert not lines
    assert keys.is_untouched


def test_a_cap_is_refused_before_anything_is_sent(keys):
    lines, error = keys.deploy("--daily-cap", "USDC=1")

    assert "--daily-cap: An escrow on Solana has no cap." in error
    assert not lines
    assert keys.is_untouched


def test_a_relayer_that_cannot_pay_is_told_what_it_takes():
    poor = Keys(lamports=SOL // 100)

    lines, error = poor.deploy()

    assert f"{poor.relayer} has 0.01 SOL, and may need 0.0" in error
    assert not lines
    assert poor.is_untouched


def test_a_policy_signer_that_is_not_configured_is_named(keys):
    done = deploy_in_process_of_its_own(
        "solana-localnet", "--owner", keys.owner, **environment_of(keys, POLICY_SIGNER_SOLANA_KEY="")
    )

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
