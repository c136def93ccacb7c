"""A configuration that cannot work is refused at the start, by the name of the variable, never with its value."""

import os
import re
import runpy
import ssl
import subprocess
import sys
from decimal import Decimal

import pytest
from django.conf import settings

from allowance.chain_settings import read_chains
from allowance.environment.configuration import Configuration
from allowance.environment.missing_escrows import leave_out_missing_escrows
from allowance.environment.variables import OF_A_CHAIN, READ_ELSEWHERE, find_unknown
from allowance.settings import configuration
from chains.catalogue import CHAINS

GOOD = {
    "SECRET_KEY": "An example of a long secret, which nobody uses: 0123456789.",
    "DATABASE_URL": "postgres://user:password@db.example:5432/allowance",
    "REDIS_URL": "redis://broker.example:6379/0",
    "ALLOWED_HOSTS": "pay.example",
    "POLICY_SIGNER_ED25519_KEY": "11" * 32,
    "POLICY_SIGNER_SECP256K1_KEY": "22" * 32,
    "RELAYER_SEED": "33" * 64,
    "WEBHOOK_SECRETS_KEY": "55" * 32,
    "CHAIN_BASE_RPC_URLS": "https://node.example,https://node.example.net/v2",
    "CHAIN_BASE_ESCROW": "0x" + "ab" * 20,
    "CHAIN_BASE_MIN_PAYMENT": "USDC=0.01,EURC=0.01",
}
SOLANA = {
    "POLICY_SIGNER_SOLANA_KEY": "44" * 32,
    "CHAIN_SOLANA_RPC_URLS": "https://solana.example,https://solana.example.net",
    "CHAIN_SOLANA_ESCROW": "5Q544fKrFoe6tsEbD7S8EmxGTJYAKtTVhAW5Q5pge4j1",
    "CHAIN_SOLANA_OWNER": "GmaDrppBC7P5ARKV8g3djiwP89vz1jLK23V2GBjuAEGB",
    "CHAIN_SOLANA_FIRST_BLOCK": "350000000",
    "CHAIN_SOLANA_MIN_PAYMENT": "SOL=0.001,USDC=0.01,USDT=0.01,PYUSD=0.01,EURC=0.01",
}


def check(environment, *arguments):
    """Run `manage.py check` in an environment of nothing but these variables."""
    return subprocess.run(
        [sys.executable, "manage.py", "check", *arguments],
        env={"PATH": os.environ["PATH"], **environment},
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=False,
    )


def read_settings(environment):
    """Read the settings anew, from an environment of nothing but these variables."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [*os.environ]:
            patch.delenv(name)
        for name, value in environment.items():
            patch.setenv(name, value)
        return runpy.run_path(str(settings.BASE_DIR / "allowance" / "settings.py"))


@pytest.mark.parametrize("chains", [{}, SOLANA])
def test_a_complete_configuration_is_accepted_without_anything_embedded(chains):
    done = check({**GOOD, **chains})
    assert done.returncode == 0, done.stderr


def test_every_missing_variable_is_named_at_once():
    done = check({})
    assert done.returncode == 1
    for name in (*(name for name in GOOD if not name.startswith("CHAIN_")), "CHAIN_<ALIAS>_RPC_URLS"):
        assert name in done.stderr, name
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DATABASE_URL", "mysql://secret-value@db/x"),
        ("DATABASE_URL", "postgres://user:secret-value/with-a-slash@db.example/x"),
        ("DATABASE_URL", "postgres://user@db.example/x?sslmod=secret-value"),
        ("DATABASE_URL", "postgres://user@db.example/x?atomic_requests=true"),
        ("DATABASE_URL", "postgres://user:1234/secret-value@db.example/x"),
        ("DATABASE_URL", "postgres://user:an@secret-value@db.example/x"),
        ("DATABASE_URL", "postgres://user:secret-value@db.example/x#"),
        ("DATABASE_URL", "postgres://user:secret-value@db.example/x#?sslmode=require"),
        ("DATABASE_URL", "postgres://user:secret-value@db.example/x?sslmode=require#"),
        ("DATABASE_URL", "postgres://user:secret-value@db.example?sslmode=require"),
        ("DATABASE_URL", "pgsql://user:secret-value@db.example/x"),
        ("DATABASE_URL", "$secret-value"),
        ("SECRET_KEY", ""),
        ("REDIS_URL", "redis://:secret-value/with-a-slash@db.example/0"),
        ("REDIS_URL", "redis://:secret-value@broker.example/0?ssl_cert_reqs=required"),
        ("REDIS_URL", "rediss://:secret-value@broker.example/0?ssl_cert_reqs=none"),
        ("REDIS_URL", "rediss://:secret-value@broker.example/0?ssl_cert_reqs=CERT_OPTIONAL"),
        ("REDIS_URL", "rediss://:secret-value@broker.example/0?ssl_check_hostname=false"),
        ("REDIS_URL", "rediss://:secret-value@broker.example/0?ssl_min_version=secret-value"),
        ("REDIS_URL", "redis://:secret-value@broker.example/0;redis://other.example/0"),
        ("REDIS_URL", "redis://:secret-value@broker.example/abc"),
        ("REDIS_URL", "redis://:secret-value@broker.example/1/2"),
        ("REDIS_URL", "redis://:secret-value@broker.example,other.example/0"),
        ("REDIS_URL", "redis://user:1/secret-value@broker.example/0"),
        ("REDIS_URL", "rediss://:secret-value@broker.example/0#x"),
        ("REDIS_URL", "rediss://:secret-value@broker.example/0#"),
        ("CHAIN_BASE_RPC_URLS", "https://node.example/secret-value,https://node.example/secret-value"),
        ("CHAIN_BASE_RPC_URLS", "https://node.example/secret-value,https://NODE.example:443/secret-value/"),
        ("CHAIN_BASE_RPC_URLS", "https://secret-value@node.example,https://another@node.example./"),
        ("CHAIN_BASE_RPC_URLS", "node.example/secret-value"),
        ("CHAIN_BASE_RPC_URLS", "https://node.example:secret-value"),
        ("CHAIN_POLYGON_ESCROW", "secret-value"),
        ("SILENCED_SYSTEM_CHECKS", "allowance.E001"),
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
        ("CHAIN_BASE_MAX_TIP_GWEI", "secret-value"),
        ("CHAIN_BASE_MAX_TIP_GWEI", "-1"),
        ("CHAIN_BASE_MAX_TIP_GWEI", "0.0001"),
        ("CHAIN_SOLANA_MAX_TIP_GWEI", "1"),
        ("GAS_BUDGET_PER_AGENT", "secret-value"),
        ("GAS_BUDGET_PER_AGENT", "1e-3"),
        ("GAS_BUDGET_PER_AGENT", "0"),
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
        ("REFUSALS_PER_MINUTE", "10001"),
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
    problems = " ".join(read_settings({**GOOD, **SOLANA, name: value})["CONFIGURATION_PROBLEMS"])
    assert name in problems
    assert "secret-value" not in problems


@pytest.mark.parametrize("name", ["WEBHOOKS_ALLOW_PRIVATE", "DEBUG"])
def test_what_is_for_development_is_refused_where_nothing_is_embedded(name):
    found = read_settings({**GOOD, name: "true"})
    assert found["CONFIGURATION_PROBLEMS"] == [f"{name} is for development: it must not be set without EMBEDDED."]
    assert found[name] is False


# --- Names ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CHAIN_BASESEPOLIA_RPC_URLS", "CHAIN_BASE_SEPOLIA_RPC_URLS"),
        ("CHAIN_BASE_RPC_URL", "CHAIN_BASE_RPC_URLS"),
        ("CHAIN_BASE_FINALITY", "CHAIN_BASE_FINALITY_DEPTH"),
        ("chain_base_escrow", "CHAIN_BASE_ESCROW"),
        ("RELAYER_PER_CHAIN", "RELAYERS_PER_CHAIN"),
        ("POLICY_SIGNER_ED25519", "POLICY_SIGNER_ED25519_KEY"),
        ("WEBHOOK_SECRETS_KEY_FALLBACK", "WEBHOOK_SECRETS_KEY_FALLBACKS"),
        ("WEBHOOKS_ALLOW_PRIVAT", "WEBHOOKS_ALLOW_PRIVATE"),
        ("RATE_LIMIT_PER_MIN", "RATE_LIMIT_PER_MINUTE"),
        ("PAYMENT_VALIDITY", "PAYMENT_VALIDITY_S"),
        ("RECONCILE_STOP", "RECONCILE_STOP_ABOVE"),
        ("MAX_FEE_GWEIS", "MAX_FEE_GWEI"),
        ("EMBEDDED_WHERE_TO", ""),
        ("CHAIN_", ""),
    ],
)
def test_a_name_that_only_looks_like_one_of_ours_is_refused_with_what_is_probably_meant(name, meant):
    (problem,) = find_unknown([name], configuration.names)
    told = f"Is {meant} meant?" if meant else "See docs/operate/settings.md."
    assert problem == f"{name} means nothing here. {told}"


@pytest.mark.parametrize(
    "name",
    [
        "PATH", "PORT", "WEB_CONCURRENCY", "DATABASE_POOL_URL", "REDIS_TLS_URL", "HTTPS_PROXY", "SECRET", "LOGNAME",
        "WEBHOOKS_NAME", "WEBHOOKS_ENV_PATH", "PAYMENTS_DB_NAME", "CELERY_WORKER_CONCURRENCY", "CELERY_LOG_LEVEL",
        "WEBHOOKS_PORT", "WEBHOOKS_PORT_80_TCP_ADDR", "RELAYER_SERVICE_HOST", "WORKER_CONC_SERVICE_PORT_HTTP",
    ],
)  # fmt: skip
def test_names_of_platforms_and_other_programs_are_none_of_our_business(name):
    assert find_unknown([name], configuration.names) == []


@pytest.mark.parametrize("kind", ["BROKER_URL", "BROKER_READ_URL", "BROKER_WRITE_URL", "SKIP_CHECKS", "RESULT_BACKEND"])
def test_no_variable_of_celery_overrules_the_settings(kind):
    name = f"CELERY_{kind}"
    problems = read_settings({**GOOD, name: "redis://:secret-value@other.example/0"})["CONFIGURATION_PROBLEMS"]
    assert problems == [f"{name} must not be set: Celery's broker is REDIS_URL."]


def test_a_misspelt_name_stops_the_start_and_an_empty_one_does_not():
    done = check({**GOOD, "CHAIN_BASESEPOLIA_RPC_URLS": "https://secret-value", "RELAYER_PER_CHAIN": "3"})
    assert done.returncode == 1
    assert "CHAIN_BASESEPOLIA_RPC_URLS means nothing here. Is CHAIN_BASE_SEPOLIA_RPC_URLS meant?" in done.stderr
    assert "RELAYER_PER_CHAIN means nothing here. Is RELAYERS_PER_CHAIN meant?" in done.stderr
    assert "secret-value" not in done.stderr
    assert read_settings({**GOOD, "RELAYER_PER_CHAIN": ""})["CONFIGURATION_PROBLEMS"] == []


def test_what_is_said_of_a_chain_without_nodes_means_nothing():
    (problem,) = read_settings({**GOOD, "CHAIN_POLYGON_FIRST_BLOCK": "7"})["CONFIGURATION_PROBLEMS"]
    assert problem == "CHAIN_POLYGON_FIRST_BLOCK means nothing without CHAIN_POLYGON_RPC_URLS."


def test_the_page_of_settings_has_every_variable_that_is_read_and_no_other():
    page = (settings.BASE_DIR / "docs/operate/settings.md").read_text()
    tables = page[page.index("## Required") : page.index("## Who holds what")]
    named = {
        name
        for row in re.findall(r"^\| (`[^|]*`) \|", tables, re.MULTILINE)
        for name in re.findall(r"`([A-Z][A-Z0-9_<>]*)`", row)
    }
    chains = sorted((chain.variables for chain in CHAINS), key=len, reverse=True)
    of_chains = re.compile(f"({'|'.join(chains)})_({'|'.join(OF_A_CHAIN)})")
    read = {of_chains.sub(r"CHAIN_<ALIAS>_\2", name) for name in configuration.names | READ_ELSEWHERE}
    assert named == read


def test_what_addresses_ask_for_reaches_the_clients():
    found = read_settings(
        {
            **GOOD,
            "DATABASE_URL": GOOD["DATABASE_URL"] + "?sslmode=verify-full",
            "REDIS_URL": "rediss://:p@broker.example/1",
        }
    )
    assert found["DATABASES"]["default"]["OPTIONS"] == {"connect_timeout": 5, "sslmode": "verify-full"}
    assert found["CELERY_BROKER_USE_SSL"] == {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True}
    assert found["CELERY_BROKER_URL"] == "rediss://:p@broker.example/1"
    assert found["REDIS_URL"].endswith("?ssl_cert_reqs=required&ssl_check_hostname=true")
    assert found["CONFIGURATION_PROBLEMS"] == []


# --- What a release is warned of --------------------------------------------------------------------------------------
def release(environment):
    """Check as the Procfile's `release` does."""
    (line,) = (
        line for line in (settings.BASE_DIR / "Procfile").read_text().splitlines() if line.startswith("release:")
    )
    command = re.search(r"manage\.py check (\S.*?) &&", line)
    assert command, line
    return check(environment, *command[1].split())


def test_a_correct_configuration_is_released_without_a_warning():
    done = release({**GOOD, **SOLANA})
    assert (done.returncode, "WARNINGS" in done.stderr) == (0, False), done.stderr


def test_a_warning_stops_a_release():
    done = release({**GOOD, "SECRET_KEY": "short"})
    assert done.returncode == 1
    assert "security.W009" in done.stderr


@pytest.mark.parametrize(
    "urls",
    [
        "https://node.example",
        "https://node.example/a,https://node.example/b",
        "https://node.example,http://NODE.example.",
    ],
)
def test_a_main_network_with_nodes_of_one_host_is_not_released(urls):
    alone = {**GOOD, "CHAIN_BASE_RPC_URLS": urls}
    done = release(alone)
    assert done.returncode == 1
    assert "allowance.W001" in done.stderr
    assert "CHAIN_BASE_RPC_URLS names nodes of one host only" in done.stderr
    assert "believed on its word alone" in done.stderr


def test_who_accepts_that_on_record_releases_it_and_who_is_at_work_is_not_stopped_by_it():
    alone = {**GOOD, "CHAIN_BASE_RPC_URLS": "https://node.example"}
    assert release({**alone, "SILENCED_SYSTEM_CHECKS": "allowance.W001"}).returncode == 0
    assert check(alone).returncode == 0


def test_a_main_network_that_pays_however_little_is_not_released():
    done = release({**GOOD, "CHAIN_BASE_MIN_PAYMENT": "USDC=0.01"})
    assert done.returncode == 1
    assert "(allowance.W002) base pays however small amounts of EURC." in done.stderr
    assert "CHAIN_BASE_MIN_PAYMENT" in done.stderr


def test_a_test_network_may_have_one_node_and_pay_however_little():
    main = {name for name in GOOD if name.startswith("CHAIN_")}
    test = {
        "CHAIN_BASE_SEPOLIA_RPC_URLS": "https://node.example",
        "CHAIN_BASE_SEPOLIA_ESCROW": GOOD["CHAIN_BASE_ESCROW"],
    }
    done = release({name: value for name, value in GOOD.items() if name not in main} | test)
    assert done.returncode == 0, done.stderr


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
    for name in [name for name in os.environ if name.startswith("CHAIN_")]:
        monkeypatch.delenv(name)
    for name, value in {**GOOD, **variables}.items():
        monkeypatch.setenv(name, value)
    configuration = Configuration()
    return read_chains(configuration)["eip155:8453"], configuration.problems


def test_a_chain_is_final_by_its_tag_and_may_have_deposits_since_its_first_block_unless_told_otherwise(monkeypatch):
    served, problems = read_base(monkeypatch)
    assert (served.finality_depth, served.first_block, problems) == (None, 0, [])


def test_finality_depth_and_first_block_are_read_per_chain(monkeypatch):
    served, problems = read_base(monkeypatch, CHAIN_BASE_FINALITY_DEPTH="12", CHAIN_BASE_FIRST_BLOCK="0")
    assert (served.finality_depth, served.first_block, problems) == (12, 0, [])

    served, problems = read_base(monkeypatch, CHAIN_BASE_FIRST_BLOCK="31000000")
    assert (served.first_block, problems) == (31_000_000, [])


def test_the_highest_tip_is_the_chains_own_unless_told_otherwise(monkeypatch):
    served, problems = read_base(monkeypatch)
    assert (served.max_tip_gwei, problems) == (None, [])

    served, problems = read_base(monkeypatch, CHAIN_BASE_MAX_TIP_GWEI="0.25")
    assert (served.max_tip_gwei, problems) == (Decimal("0.25"), [])


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
    solana = read_chains(configuration)["solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp"]
    assert (solana.owner, configuration.problems) == (SOLANA["CHAIN_SOLANA_OWNER"], [])


# --- Money that is worth nothing --------------------------------------------------------------------------------------
def problems_of(*chains):
    """Serve chains, by the names in their variables, and tell what is wrong with that."""
    with pytest.MonkeyPatch.context() as environment:
        for name in [name for name in os.environ if name.startswith("CHAIN_")]:
            environment.delenv(name)
        environment.setenv("POLICY_SIGNER_SOLANA_KEY", SOLANA["POLICY_SIGNER_SOLANA_KEY"])
        for chain in chains:
            environment.setenv(f"CHAIN_{chain}_RPC_URLS", "https://node.example")
        for chain in chains:
            is_solana = chain.startswith("SOLANA")
            environment.setenv(
                f"CHAIN_{chain}_ESCROW", SOLANA["CHAIN_SOLANA_ESCROW"] if is_solana else "0x" + "ab" * 20
            )
            if is_solana:
                environment.setenv(f"CHAIN_{chain}_OWNER", SOLANA["CHAIN_SOLANA_OWNER"])
            environment.setenv(f"CHAIN_{chain}_FIRST_BLOCK", "1")
        configuration = Configuration()
        read_chains(configuration)
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
