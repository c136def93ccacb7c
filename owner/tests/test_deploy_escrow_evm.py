"""`manage.py deploy_escrow`: a new escrow is what it should be, and nothing is signed by mistake."""

import io
import json
import os
import subprocess
import sys

import pytest
from django.conf import settings
from django.core.management import call_command
from django.test import override_settings
from eth_account import Account

from foundation.kernel.assets import Asset
from owner.evm.deployment import MOST_RELAYERS
from payments.models import Relayer
from services.served_chains import configured_roles, evm_chain
from staff.models import AuditEntry
from tests.support.commands import run
from tests.support.embedded_nodes import deployer_key, known, node_of_chain, served
from tests.support.evm_escrow import balance_of, call, rpc, token
from tests.support.factories import new_address
from tests.support.local_ids import LOCALNET

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("hurried")]

STRANGER = Account.from_key("0x" + "77" * 32).address


def deployer_nonce():
    return int(rpc("eth_getTransactionCount", Account.from_key(deployer_key()).address), 16)


@pytest.fixture
def with_key(monkeypatch):
    monkeypatch.setenv("DEPLOYER_KEY", deployer_key().hex())


def deploy_in_process_of_its_own(*arguments, **variables):
    """Run the command in an environment that has everything but the escrow, and nothing embedded."""
    environment = {
        "PATH": os.environ["PATH"],
        "SECRET_KEY": "s" * 60,
        "DATABASE_URL": "postgres://nobody:nothing@127.0.0.1:9/nowhere",
        "REDIS_URL": "redis://127.0.0.1:9/0",
        "ALLOWED_HOSTS": "pay.example",
        "POLICY_SIGNER_ED25519_KEY": "11" * 32,
        "POLICY_SIGNER_SECP256K1_KEY": "22" * 32,
        "WEBHOOK_SECRETS_KEY": "33" * 32,
        "WEBHOOK_SIGNING_KEY": "44" * 32,
        "RELAYER_SEED": "33" * 64,
        "RELAYERS_PER_CHAIN": "3",
        "CHAIN_EVM_LOCALNET_RPC_URLS": served().rpc_urls[0],
        "CHAIN_EVM_LOCALNET_TOKENS": ",".join(f"{asset}={address}" for asset, address in served().tokens.items()),
        "DEPLOYER_KEY": deployer_key().hex(),
    }
    return subprocess.run(
        [sys.executable, "manage.py", "deploy_escrow", *arguments],
        env={name: value for name, value in {**environment, **variables}.items() if value},
        cwd=settings.BASE_DIR,
        capture_output=True,
        input="",
        text=True,
        check=False,
    )


def test_an_escrow_is_deployed_before_one_is_configured_and_then_the_chain_is_what_is_configured():
    owner = Account.from_key(deployer_key()).address

    done = deploy_in_process_of_its_own("evm-localnet", "--owner", owner, "--daily-cap", "USDC=12.5")

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    result = json.loads(lines[-1])
    escrow, block = result["escrow"], result["block"]
    printed = {"ESCROW": escrow, "OWNER": owner, "FIRST_BLOCK": block}
    assert lines[:-1] == [f"CHAIN_EVM_LOCALNET_{name}={value}" for name, value in printed.items()]
    receipt = rpc("eth_getTransactionReceipt", result["tx"])
    assert (receipt["contractAddress"].lower(), int(receipt["blockNumber"], 16)) == (escrow.lower(), block)
    assert (result["chain"], result["owner"], result["mismatches"], result["toSign"]) == (LOCALNET, owner, [], None)
    assert deployer_key().hex() not in done.stdout + done.stderr
    assert served().rpc_urls[0] not in done.stdout + done.stderr

    with override_settings(
        POLICY_SIGNER_SECP256K1_KEY=bytes.fromhex("22" * 32),
        RELAYER_SEED=bytes.fromhex("33" * 64),
        RELAYERS_PER_CHAIN=3,
        CHAINS={LOCALNET: served(escrow=escrow)},
    ):
        Relayer.objects.filter(chain=LOCALNET).delete()
        inspection = evm_chain(LOCALNET).inspector.inspect(configured_roles().relayers)
    assert inspection.find_mismatches() == []
    assert inspection.contracts is not None
    assert inspection.contracts.owner == owner
    assert len(inspection.contracts.enabled_relayers) == len(result["relayers"]) == 3
    caps = {found.asset: found.daily_cap for found in inspection.contracts.tokens if found.daily_cap}
    assert {asset: str(cap.normalize()) for asset, cap in caps.items()} == {Asset.USDC: "12.5"}


def test_a_new_escrow_of_another_owner_has_no_caps_and_says_what_the_owner_has_to_call(with_key):
    out, told = io.StringIO(), io.StringIO()
    call_command(
        "deploy_escrow", "evm-localnet", owner=STRANGER, daily_cap=["USDC=1000", "EURC=5"], stdout=out, stderr=told
    )

    result = json.loads(out.getvalue().splitlines()[-1])
    assert f"setDailyCap({token()}, 1000000000)" in told.getvalue()
    assert f"setDailyCap({token(Asset.EURC)}, 5000000)" in told.getvalue()
    assert [mismatch for mismatch in result["mismatches"] if "daily cap" in mismatch] == result["mismatches"] != []
    assert result["objections"][0] == "The escrow's daily cap for USDC is zero: its owner sets it (setDailyCap)."
    caps = [(token(), 1_000_000_000), (token(Asset.EURC), 5_000_000)]
    wanted = [(result["escrow"], "0", call("setDailyCap(address,uint256)", *cap)) for cap in caps]
    batch = json.loads(result["toSign"]["safe"])
    for calls in (result["toSign"]["calls"], batch["transactions"]):
        assert [(one["to"], one["value"], one["data"]) for one in calls] == wanted
    assert (result["toSign"]["owner"], batch["chainId"]) == (STRANGER, "31337")
    assert result["toSign"]["safe"] in out.getvalue().splitlines()
    assert all(data in told.getvalue() for _, _, data in wanted)
    answer = rpc("eth_call", {"to": result["escrow"], "data": call("owner()")}, "latest")
    assert int(answer, 16) == int(STRANGER, 16)
    assert balance_of(Asset.USDC, result["escrow"]) == 0
    entry = AuditEntry.objects.get(action="escrow.deployed", after__escrow=result["escrow"])
    assert (entry.author, (entry.after or {})["owner"]) == ("command line", STRANGER)


def test_nothing_is_signed_for_a_node_of_another_chain(with_key):
    before = deployer_nonce()
    sepolia = known("sepolia")
    with override_settings(CHAINS={sepolia.caip2: served(chain=sepolia)}):
        _, error = run("deploy_escrow", "sepolia", "--owner", STRANGER)

    assert "Node 1 of 1 is of chain 31337, not of 11155111." in error
    assert deployer_nonce() == before


@pytest.mark.parametrize(("typed", "said"), [("no\n", "Nothing was deployed."), ("", "--yes")])
def test_a_chain_with_real_money_asks_first(with_key, monkeypatch, typed, said):
    base = known("base")
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    with node_of_chain(8453) as url, override_settings(CHAINS={base.caip2: served(chain=base, rpc_urls=(url,))}):
        _, error = run("deploy_escrow", "base", "--owner", STRANGER)

    assert said in error


@pytest.mark.parametrize(("typed", "arguments"), [("base\n", []), ("", ["--yes"])])
def test_a_chain_with_real_money_goes_on_when_told_so(with_key, monkeypatch, typed, arguments):
    base = known("base")
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    with node_of_chain(8453) as url, override_settings(CHAINS={base.caip2: served(chain=base, rpc_urls=(url,))}):
        _, error = run("deploy_escrow", "base", "--owner", STRANGER, *arguments)

    # This node answers nothing but its chain: the next question is the first that fails.
    assert "No node answered eth_getTransactionCount." in error


def test_a_deployer_that_cannot_pay_is_told_what_it_takes(monkeypatch):
    poor = Account.create()
    monkeypatch.setenv("DEPLOYER_KEY", poor.key.hex())

    _, error = run("deploy_escrow", "evm-localnet", "--owner", STRANGER)

    assert f"{poor.address} has 0.00 of the chain's coin, and may need 0." in error


@pytest.mark.parametrize("value", ["", "secret-value", "00" * 32, "ff" * 32, "12" * 31])
def test_a_key_that_is_none_is_named_and_its_value_is_not_told(monkeypatch, value):
    monkeypatch.setenv("DEPLOYER_KEY", value)

    lines, error = run("deploy_escrow", "evm-localnet", "--owner", STRANGER)

    assert "DEPLOYER_KEY" in error
    assert not lines
    assert not value or value not in error


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["atlantis", "--owner", STRANGER], "atlantis"),
        (["evm-localnet"], "--owner"),
        (["optimism", "--owner", STRANGER], "CHAIN_OPTIMISM_RPC_URLS is not set."),
        (["evm-localnet", "--owner", "0x1"], "--owner"),
        (["evm-localnet", "--owner", "0x" + "0" * 40], "--owner"),
        (["evm-localnet", "--owner", STRANGER.swapcase().replace("0X", "0x")], "EIP-55"),
        (["evm-localnet", "--owner", "the policy signer"], "--owner"),
        (["evm-localnet", "--owner", "a relayer"], "--owner"),
        (["evm-localnet", "--owner", STRANGER, "--daily-cap", "SOL=1"], "--daily-cap"),
        (["evm-localnet", "--owner", STRANGER, "--daily-cap", "USDC"], "--daily-cap"),
        (["evm-localnet", "--owner", STRANGER, "--daily-cap", "USDC=0.0000001"], "--daily-cap"),
    ],
)
def test_what_cannot_be_deployed_is_refused_before_anything_is_sent(with_key, arguments, said):
    before, roles = deployer_nonce(), configured_roles()
    named = {"the policy signer": roles.policy_signer, "a relayer": roles.relayers[0]}

    _, error = run("deploy_escrow", *(named.get(argument, argument) for argument in arguments))

    assert said in error
    assert deployer_nonce() == before


def test_more_relayers_than_an_escrow_is_deployed_with_are_refused(with_key):
    with override_settings(RELAYERS_PER_CHAIN=MOST_RELAYERS + 1):
        _, error = run("deploy_escrow", "evm-localnet", "--owner", STRANGER)
    assert "RELAYERS_PER_CHAIN=64" in error


def test_nothing_is_deployed_with_a_signer_that_is_not_configured():
    done = deploy_in_process_of_its_own(
        "evm-localnet", "--owner", STRANGER, POLICY_SIGNER_SECP256K1_KEY="", CHAIN_EVM_LOCALNET_ESCROW=new_address()
    )
    assert done.returncode == 1
    assert "POLICY_SIGNER_SECP256K1_KEY is not set." in done.stderr
    assert "Traceback" not in done.stderr
