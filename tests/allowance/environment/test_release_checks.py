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
