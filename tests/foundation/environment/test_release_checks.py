"""`release` stops at a warning: nodes of one host, no least amount, a missing variable."""

import os
import re
import subprocess
import sys

import pytest
from django.conf import settings

from tests.support.configurations import GOOD, SOLANA, check, read_settings


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


def test_browsers_are_told_of_the_whole_domain_only_if_that_is_set():
    default, preload = (read_settings({**GOOD, **more}) for more in ({}, {"HSTS_PRELOAD": "true"}))

    names = ("SECURE_HSTS_SECONDS", "SECURE_HSTS_INCLUDE_SUBDOMAINS", "SECURE_HSTS_PRELOAD")
    assert [default[name] for name in names] == [31_536_000, False, False]
    assert [preload[name] for name in names] == [31_536_000, True, True]
    assert preload["SILENCED_SYSTEM_CHECKS"] == []
    plain = read_settings({**GOOD, "HSTS_PRELOAD": "true", "HTTPS": "false"})
    assert "HSTS_PRELOAD is set, but HTTPS is false." in plain["CONFIGURATION_PROBLEMS"]


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


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"WEBHOOK_SECRETS_KEY": GOOD["POLICY_SIGNER_SECP256K1_KEY"]}, "(allowance.E002) POLICY_SIGNER_SECP256K1_KEY"),
        ({"RELAYER_SEED": "33" * 32 + GOOD["POLICY_SIGNER_ED25519_KEY"]}, "(allowance.E002) POLICY_SIGNER_ED25519_KEY"),
        (
            {"CHAIN_BASE_RPC_URLS": "https://node.example,http://10.0.0.7:8545"},
            "(allowance.W003) base, node 2 of 2: Its address begins with http://",
        ),
        (
            {"POLICY_SIGNR_ED25519_KEY": "66" * 32},
            "(allowance.W004) POLICY_SIGNR_ED25519_KEY: Nothing here reads POLICY_SIGNR_ED25519_KEY",
        ),
        ({"DATABSE_URL": "postgres://db.example/x"}, "(allowance.W004) DATABSE_URL"),
    ],
)
def test_what_the_doctor_finds_without_asking_anybody_stops_a_release_too(wrong, named):
    done = release({**GOOD, **wrong})

    assert done.returncode == 1
    assert named in done.stderr
    assert not [value for value in wrong.values() if value in done.stderr]


def test_the_embedded_mode_on_a_server_is_refused_in_a_sentence():
    folder = "/proc/nobody-can-make-this"
    for command in ("check", "migrate"):
        done = subprocess.run(
            [sys.executable, "manage.py", command],
            env={"PATH": os.environ["PATH"], "EMBEDDED": "true", "EMBEDDED_DIR": folder},
            cwd=settings.BASE_DIR, capture_output=True, text=True, check=False,
        )  # fmt: skip

        assert done.returncode == 1
        assert f"{folder} cannot be made" in done.stderr
        assert "On a server, unset EMBEDDED" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_database_that_lets_nobody_in_is_told_in_a_sentence():
    configured = settings.DATABASES["default"]
    server = f"127.0.0.1:{configured['PORT']}" if configured["PORT"] else "127.0.0.1:1"
    away = {**GOOD, "DATABASE_URL": f"postgres://nobody:a-password@{server}/allowance"}
    done = subprocess.run(
        [sys.executable, "manage.py", "migrate", "--noinput"],
        env={"PATH": os.environ["PATH"], **away}, cwd=settings.BASE_DIR, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 1
    assert done.stderr.startswith("The database of DATABASE_URL cannot be used: connection failed")
    assert "Traceback" not in done.stderr
    assert "a-password" not in done.stderr


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
