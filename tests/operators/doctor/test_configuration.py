"""Faults of the environment: most of them in one command that is started with all of them, others in this process."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured

from operators.doctor.diagnoses import State
from tests.operators.doctor.diagnosis import the_trouble, trouble_with, troubles
from tests.support.ports import free_ports

# The first account of anvil and Hardhat.
PUBLISHED = "ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
PASSWORD, NODE_KEY = "a-password-of-ours", "a-key-of-the-provider"


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the doctor where nearly nothing is right; gives its findings by subject, its lines and its status."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / ".env").write_text("SECRET_KEY=x\n")
    (folder / ".env").chmod(0o644)
    away = f"127.0.0.1:{free_ports(1)[0]}"
    seed = os.urandom(64).hex()
    environment = {
        "PATH": os.environ["PATH"],
        "DATABSE_URL": f"postgres://we:{PASSWORD}@{away}/allowance",
        "REDIS_URL": f"redis://:{PASSWORD}@{away}/0",
        "SECRET_KEY": "hunter22",
        "ALLOWED_HOSTS": "*",
        "HTTPS": "false",
        "POLICY_SIGNER_SECP256K1_KEY": PUBLISHED,
        "RELAYER_SEED": seed,
        "WEBHOOK_SECRETS_KEY": seed[64:],
        "CHAIN_BASE_RPC_URLS": f"http://{away}/{NODE_KEY}",
        "CHAIN_BASE_ESCRO": "0x" + "11" * 20,
        "MAX_FEE_GWEI": "a lot",
        "DEPOSIT_KEY": os.urandom(32).hex(),
    }
    done = subprocess.run(
        [sys.executable, str(configured.BASE_DIR / "manage.py"), "doctor"],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])["findings"]
    by_subject = {(one["area"], one["subject"]): one for one in found}
    return {"found": by_subject, "text": done.stdout + done.stderr, "status": done.returncode, "folder": folder}


@pytest.mark.parametrize(
    ("subject", "state", "says", "mend"),
    [
        ("POLICY_SIGNER_ED25519_KEY", "error", "is not set", "python manage.py setup"),
        ("DATABASE_URL", "error", "is not set", "Set DATABASE_URL: docs/operate/settings.md"),
        ("MAX_FEE_GWEI", "error", "is not a whole number", "Correct MAX_FEE_GWEI: docs/operate/settings.md"),
        ("CHAIN_BASE_ESCRO", "error", "means nothing here", "Rename CHAIN_BASE_ESCRO to CHAIN_BASE_ESCROW"),
        ("CHAIN_BASE_ESCROW", "error", "manage.py deploy_escrow base", "Set CHAIN_BASE_ESCROW"),
        ("DATABSE_URL", "warning", "did you mean DATABASE_URL?", "Rename DATABSE_URL to DATABASE_URL"),
        ("DEPOSIT_KEY", "warning", "on test networks alone", "Remove DEPOSIT_KEY"),
        ("HTTPS", "warning", "in the clear", "Set HTTPS=true"),
        ("ALLOWED_HOSTS", "warning", "Any host name", "Name your hosts in ALLOWED_HOSTS"),
        ("RELAYER_SEED, WEBHOOK_SECRETS_KEY", "error", "contains the other", "Make another WEBHOOK_SECRETS_KEY"),
        ("POLICY_SIGNER_SECP256K1_KEY", "error", "is published", "python manage.py rotate_keys"),
        ("SECRET_KEY", "error", "can be guessed", "Make another one"),
    ],
)
def test_a_fault_of_a_variable(broken, subject, state, says, mend):
    found = broken["found"]["configuration", subject]
    assert found["state"] == state
    assert says in found["says"]
    assert mend in found["mend"]


def test_a_file_of_variables_that_others_read(broken):
    path = str(broken["folder"] / ".env")
    found = broken["found"]["configuration", path]
    assert "its mode is 0644" in found["says"]
    assert found["mend"] == f"chmod 600 {path}"


def test_what_rests_on_what_is_missing_is_skipped_and_the_rest_is_looked_at(broken):
    assert broken["found"]["database", "connection"]["state"] == "skipped"
    assert broken["found"]["Redis", "connection"]["state"] == "error"
    assert broken["found"]["chains", "base, node 1 of 1"]["says"] == "It is of no use: ConnectionError."
    assert broken["found"]["staff", "administrators"]["says"] == "Not looked at without the database and the tables."
    assert not [one for one in broken["found"].values() if "The check itself failed" in one["says"]]
    assert broken["status"] == 1


def test_no_secret_is_shown_of_an_installation_that_is_broken(broken):
    for secret in (PASSWORD, NODE_KEY, PUBLISHED, "hunter22"):
        assert secret not in broken["text"]


# --- In this process --------------------------------------------------------------------------------------------------
def test_nodes_of_one_provider_for_real_money(settings, protected):
    (served,) = [one for one in settings.CHAINS.values() if one.chain.alias == "evm-localnet"]
    real = replace(served, chain=replace(served.chain, is_test=False), minimums=dict.fromkeys(served.tokens, 1))
    settings.CHAINS = {served.chain.caip2: real}
    found = trouble_with("configuration", "allowance.W001")
    assert found.state == State.WARNING
    assert "SILENCED_SYSTEM_CHECKS" in found.mend


def test_a_variable_that_resembles_another_programs_is_left_alone(monkeypatch):
    monkeypatch.setenv("DATABASE_URI", "postgres://elsewhere/db")
    monkeypatch.setenv("LOG_LEVELS", "all")
    assert the_trouble("configuration").subject == "LOG_LEVELS"


def test_a_key_that_was_made_by_the_embedded_mode(settings, monkeypatch, tmp_path, protected):
    (tmp_path / ".data").mkdir()
    (tmp_path / ".data/keys.json").write_text(json.dumps({"RELAYER_SEED": os.environ["RELAYER_SEED"]}))
    settings.BASE_DIR = Path(tmp_path)
    found = the_trouble("configuration")
    assert (found.subject, found.state) == ("RELAYER_SEED", State.WARNING)
    assert "embedded mode's folder" in found.says
    assert troubles("configuration")[0].mend.endswith("docs/operate/keys.md")
