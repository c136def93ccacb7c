"""A misspelt name of a variable stops the start; the names of other programs are not ours to judge."""

import ssl

import pytest

from chains.chain_settings import KNOWN
from foundation.environment.connections import OF_DATABASE
from foundation.environment.variables import find_unknown
from tests.support.configurations import GOOD, check, read_settings


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
    (problem,) = find_unknown([name], KNOWN)
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
    assert find_unknown([name], KNOWN) == []


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


def test_what_addresses_ask_for_reaches_the_clients():
    found = read_settings(
        {
            **GOOD,
            "DATABASE_URL": GOOD["DATABASE_URL"] + "?sslmode=verify-full",
            "REDIS_URL": "rediss://:p@broker.example/1",
        }
    )
    assert found["DATABASES"]["default"]["OPTIONS"] == {**OF_DATABASE, "sslmode": "verify-full"}
    assert found["CELERY"]["broker_use_ssl"] == {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True}
    assert found["CELERY"]["broker_url"] == "rediss://:p@broker.example/1"
    assert found["REDIS_URL"].endswith("?ssl_cert_reqs=required&ssl_check_hostname=true")
    assert found["CONFIGURATION_PROBLEMS"] == []
