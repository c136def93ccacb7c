"""A configuration that cannot work is refused at the start, by the name of the variable, never with its value."""

import os
import subprocess
import sys

import pytest
from django.conf import settings

from allowance.configuration import Configuration, leave_out_missing_escrows

GOOD = {
    "SECRET_KEY": "s" * 60,
    "DATABASE_URL": "postgres://user:password@db.example:5432/allowance",
    "REDIS_URL": "redis://broker.example:6379/0",
    "ALLOWED_HOSTS": "pay.example",
    "POLICY_SIGNER_ED25519_KEY": "11" * 32,
    "POLICY_SIGNER_SECP256K1_KEY": "22" * 32,
    "RELAYER_SEED": "33" * 64,
    "WEBHOOK_SECRETS_KEY": "55" * 32,
    "CHAIN_BASE_RPC_URLS": "https://node.example",
    "CHAIN_BASE_ESCROW": "0x" + "ab" * 20,
}
SOLANA = {
    "POLICY_SIGNER_SOLANA_KEY": "44" * 32,
    "CHAIN_SOLANA_RPC_URLS": "https://node.example",
    "CHAIN_SOLANA_ESCROW": "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1",
    "CHAIN_SOLANA_OWNER": "GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB",
    "CHAIN_SOLANA_FIRST_BLOCK": "350000000",
}


def check(environment):
    """Run `manage.py check` in an environment of nothing but these variables."""
    return subprocess.run(
        [sys.executable, "manage.py", "check"],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("chains", [{}, SOLANA])
def test_a_complete_configuration_is_accepted_without_anything_embedded(chains):
    done = check({**GOOD, **chains})
    assert done.returncode == 0, done.stderr


def test_every_missing_variable_is_named_at_once():
    done = check({})
    assert done.returncode == 1
    for name in (*GOOD.keys() - {"CHAIN_BASE_ESCROW", "CHAIN_BASE_RPC_URLS"}, "CHAIN_<ALIAS>_RPC_URLS"):
        assert name in done.stderr, name
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://secret-value@db/x"),
        ("REDIS_URL", "secret-value"),
        ("POLICY_SIGNER_ED25519_KEY", "5ec4e7"),
        ("POLICY_SIGNER_ED25519_KEY", "not hex: secret-value"),
        ("POLICY_SIGNER_SECP256K1_KEY", "00" * 32),
        ("POLICY_SIGNER_SECP256K1_KEY", "ff" * 32),
        ("RELAYER_SEED", "33" * 32),
        ("CHAIN_BASE_ESCROW", "secret-value"),
        ("CHAIN_BASE_ESCROW", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA0291a"),
        ("CHAIN_BASE_TOKENS", "USDC=secret-value"),
        ("CHAIN_BASE_TOKENS", "GOLD=0x" + "ab" * 20),
        ("CHAIN_BASE_MIN_PAYMENT", "0.01"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC="),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=0"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=-1"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=+1"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=1e-2"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=.5"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC= 1"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=0.0000001"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDC=0.01,USDC=0.02"),
        ("CHAIN_BASE_MIN_PAYMENT", "usdc=0.01"),
        ("CHAIN_BASE_MIN_PAYMENT", "GOLD=0.01"),
        ("CHAIN_BASE_MIN_PAYMENT", "USDT=0.01"),
        ("CHAIN_BASE_MIN_PAYMENT", "secret-value=1"),
        ("CHAIN_SOLANA_MIN_PAYMENT", "SOL=0.0000000001"),
        ("CHAIN_BASE_ESCROW", ""),
        ("CHAIN_BASE_FINALITY_DEPTH", "secret-value"),
        ("CHAIN_BASE_FINALITY_DEPTH", "0"),
        ("CHAIN_BASE_FIRST_BLOCK", "-1"),
        ("CHAIN_BASE_FIRST_BLOCK", "0x10"),
        ("CHAIN_BASE_FIRST_BLOCK", "9" * 5000),
        ("CHAIN_SOLANA_ESCROW", ""),
        ("CHAIN_SOLANA_FIRST_BLOCK", ""),
        ("CHAIN_SOLANA_OWNER", ""),
        ("CHAIN_SOLANA_OWNER", "0x" + "ab" * 20),
        ("CHAIN_SOLANA_OWNER", "6secret-value"),
        ("CHAIN_BASE_OWNER", "0x" + "ab" * 20),
        ("CHAIN_BASE_OWNER", "GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB"),
        ("CHAIN_SOLANA_FINALITY_DEPTH", "3"),
        ("CHAIN_BASE_TOKENS", "USDT=0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"),
        ("CHAIN_SOLANA_ESCROW", "0x" + "ab" * 20),
        ("CHAIN_SOLANA_ESCROW", "5secret-value"),
        ("CHAIN_SOLANA_TOKENS", "USDC=0x" + "ab" * 20),
        ("POLICY_SIGNER_SOLANA_KEY", ""),
        ("POLICY_SIGNER_SOLANA_KEY", "5ec4e7"),
        ("HTTPS", "maybe-secret-value"),
        ("DEBUG", "2"),
        ("RATE_LIMIT_PER_MINUTE", "abc"),
        ("REFUSALS_PER_MINUTE", "0"),
        ("REFUSALS_PER_MINUTE", "1000001"),
        ("RELAYERS_PER_CHAIN", "0"),
        ("CHAIN_STATE_MAX_AGE_S", "-1"),
        ("PAYMENT_VALIDITY_S", "59"),
        ("PAYMENT_VALIDITY_S", "3601"),
        ("RECONCILE_STOP_ABOVE", "-0.5"),
        ("RECONCILE_STOP_ABOVE", "1e3"),
        ("RETIRED_RECEIPT_KEYS", "aa"),
        ("WEBHOOK_SECRETS_KEY", "5ec4e7"),
        ("WEBHOOK_SECRETS_KEY", "00" * 32),
        ("WEBHOOK_SECRETS_KEY_FALLBACKS", "66" * 32 + ",secret-value"),
        ("WEBHOOKS_ALLOW_PRIVATE", "secret-value"),
    ],
)
def test_a_malformed_variable_is_named_and_its_value_is_not_told(name, value):
    done = check({**GOOD, **SOLANA, name: value})
    assert done.returncode == 1
    assert name in done.stderr
    assert "secret-value" not in done.stderr
    assert "Traceback" not in done.stderr


def deploy_warnings(**variables):
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy"],
        env={"PATH": os.environ["PATH"], **GOOD, "HTTPS": "true", **variables},
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def test_a_main_network_that_pays_however_little_is_warned_of_by_chain_and_asset():
    warnings = deploy_warnings(CHAIN_BASE_MIN_PAYMENT="USDC=0.01")
    assert "(allowance.W002) base pays however small amounts of EURC." in warnings
    assert "CHAIN_BASE_MIN_PAYMENT" in warnings

    assert "allowance.W002" not in deploy_warnings(CHAIN_BASE_MIN_PAYMENT="USDC=0.01,EURC=0.01")


def test_a_test_network_may_pay_however_little():
    test_network = {name.replace("BASE", "BASE_SEPOLIA"): GOOD[name] for name in GOOD if "BASE_" in name[:11]}

    warnings = deploy_warnings(CHAIN_BASE_RPC_URLS="", CHAIN_BASE_ESCROW="", **test_network)

    assert "allowance.W002" not in warnings


def test_webhooks_to_this_machine_are_refused_where_nothing_is_embedded():
    done = check({**GOOD, "WEBHOOKS_ALLOW_PRIVATE": "true"})
    assert done.returncode == 1
    assert "WEBHOOKS_ALLOW_PRIVATE is for development" in done.stderr


def test_the_server_refuses_to_start_without_its_configuration():
    done = subprocess.run(
        [sys.executable, "-c", "import allowance.wsgi"],
        env={"PATH": os.environ["PATH"], "SECRET_KEY": "s" * 60},
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "DATABASE_URL is not set." in done.stderr


# --- Chains -----------------------------------------------------------------------------------------------------------
def read_base(monkeypatch, **variables):
    """Read the chain Base from an environment of these variables beside the good ones."""
    for name, value in {**GOOD, **variables}.items():
        monkeypatch.setenv(name, value)
    for localnet in ("EVM_LOCALNET", "SOLANA_LOCALNET"):
        monkeypatch.delenv(f"CHAIN_{localnet}_RPC_URLS", raising=False)
    configuration = Configuration()
    return configuration.chains()["eip155:8453"], configuration.problems


def test_a_chain_is_final_by_its_tag_and_may_have_deposits_since_its_first_block_unless_told_otherwise(monkeypatch):
    served, problems = read_base(monkeypatch)
    assert (served.finality_depth, served.first_block, problems) == (None, 0, [])


def test_finality_depth_and_first_block_are_read_per_chain(monkeypatch):
    served, problems = read_base(
        monkeypatch, CHAIN_BASE_FINALITY_DEPTH="12", CHAIN_BASE_FIRST_BLOCK="0", CHAIN_POLYGON_FIRST_BLOCK="7"
    )
    assert (served.finality_depth, served.first_block, problems) == (12, 0, [])

    served, problems = read_base(monkeypatch, CHAIN_BASE_FIRST_BLOCK="31000000")
    assert (served.first_block, problems) == (31_000_000, [])


def test_only_the_missing_escrow_is_no_problem_for_whoever_deploys_one(monkeypatch):
    _, problems = read_base(
        monkeypatch,
        CHAIN_BASE_ESCROW="",
        CHAIN_POLYGON_RPC_URLS="https://node.example",
        CHAIN_ETHEREUM_RPC_URLS="https://node.example",
        CHAIN_ETHEREUM_ESCROW="0x1",
        CHAIN_SOLANA_RPC_URLS="https://node.example",
    )
    assert len(problems) == 6
    assert "manage.py deploy_escrow base " in " ".join(problems)

    left = leave_out_missing_escrows([*problems, "DATABASE_URL is not set."])

    assert [problem.split()[0] for problem in left] == ["CHAIN_ETHEREUM_ESCROW", "DATABASE_URL"]


def test_the_owner_of_an_escrow_is_read_on_solana_and_elsewhere_the_escrow_knows_it(monkeypatch):
    served, problems = read_base(monkeypatch)
    assert (served.owner, problems) == (None, [])

    _, problems = read_base(monkeypatch, CHAIN_BASE_OWNER="0x" + "ab" * 20)
    assert problems == ["CHAIN_BASE_OWNER means nothing on an EVM chain: the escrow itself knows its owner."]
    assert leave_out_missing_escrows(problems) == problems

    for name, value in {**GOOD, **SOLANA, "CHAIN_BASE_OWNER": ""}.items():
        monkeypatch.setenv(name, value)
    configuration = Configuration()
    solana = configuration.chains()["solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"]
    assert (solana.owner, configuration.problems) == (SOLANA["CHAIN_SOLANA_OWNER"], [])


# --- Money that is worth nothing --------------------------------------------------------------------------------------
def problems_of(*chains):
    """Serve chains, by the names in their variables, and tell what is wrong with that."""
    solana = {name: value for name, value in SOLANA.items() if "_RPC_URLS" not in name}
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith("CHAIN_")]:
            environment.delenv(name)
        for name, value in {
            **solana,
            **{f"CHAIN_{chain}_RPC_URLS": "https://node.example" for chain in chains},
        }.items():
            environment.setenv(name, value)
        for chain in chains:
            is_solana = chain.startswith("SOLANA")
            environment.setenv(
                f"CHAIN_{chain}_ESCROW", SOLANA["CHAIN_SOLANA_ESCROW"] if is_solana else "0x" + "ab" * 20
            )
            if is_solana:
                environment.setenv(f"CHAIN_{chain}_OWNER", SOLANA["CHAIN_SOLANA_OWNER"])
            environment.setenv(f"CHAIN_{chain}_FIRST_BLOCK", "1")
        configuration = Configuration()
        configuration.chains()
    return configuration.problems


@pytest.mark.parametrize(
    "chains",
    [
        ("BASE", "ETHEREUM", "SOLANA"),
        ("BASE_SEPOLIA", "SOLANA_DEVNET", "SOLANA_TESTNET"),
        ("BASE_SEPOLIA", "EVM_LOCALNET", "SOLANA_LOCALNET"),
    ],
)
def test_chains_whose_money_is_worth_something_are_served_together_and_so_are_those_where_it_is_not(chains):
    assert problems_of(*chains) == []


@pytest.mark.parametrize(
    "chains",
    [
        ("BASE", "BASE_SEPOLIA"),
        ("SOLANA", "SOLANA_DEVNET"),
        ("SOLANA", "SOLANA_TESTNET"),
        ("BASE", "SOLANA_DEVNET"),
        ("POLYGON", "EVM_LOCALNET"),
        ("SOLANA", "SOLANA_LOCALNET"),
    ],
)
def test_a_test_network_is_not_served_beside_a_chain_whose_money_is_worth_something(chains):
    (problem,) = problems_of(*chains)

    main, test = (f"CHAIN_{chain}_RPC_URLS" for chain in chains)
    assert problem.startswith(f"{main} must not be set together with {test}, of test networks: ")


def test_the_embedded_chains_are_not_served_beside_one_whose_money_is_worth_something(tmp_path):
    embedded = {"EMBEDDED": "true", "EMBEDDED_DIR": str(tmp_path)}

    done = check({**GOOD, **embedded})

    assert done.returncode == 1
    assert "CHAIN_BASE_RPC_URLS must not be set together with CHAIN_EVM_LOCALNET_RPC_URLS, CHAIN_SOLANA" in done.stderr
    assert "Traceback" not in done.stderr
