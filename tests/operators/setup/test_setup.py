"""`manage.py setup` makes what an installation needs, changes nothing that is there, and prints no secret."""

import json
import os
import re
import stat
import subprocess
import sys

import pytest
from django.conf import settings

from chains.catalogue import find_chain
from foundation.environment.process_types import ProcessType
from foundation.environment.table import SETTINGS
from operators.setup import answers, env_file, variables
from operators.setup.checks import find_problems
from operators.setup.split import belongs_to
from tests.support.commands import run
from tests.support.configurations import GOOD, SOLANA, check

SERVERS = ["--database-url", "postgres://user:word@db.example/n?sslmode=require&sslcert=x", "--redis-url",
           "rediss://:word@broker.example/0", "--host", "pay.example"]  # fmt: skip
SEPOLIA = "base-sepolia=https://node.example,https://node.example.net"
SECRETS = {"SECRET_KEY", "RELAYER_SEED", "WEBHOOK_SECRETS_KEY", "METRICS_TOKEN", "POLICY_SIGNER_ED25519_KEY",
           "WEBHOOK_SIGNING_KEY", "POLICY_SIGNER_SECP256K1_KEY"}  # fmt: skip


@pytest.fixture
def file(tmp_path):
    return tmp_path / ".env"


def set_up(file, *arguments):
    """Run it in process; returns what the last line says and, if it refused, why."""
    lines, told = run("setup", "--no-input", "--file", str(file), *arguments)
    return (json.loads(lines[-1]) if lines else None), told


def read(file):
    return env_file.read_variables(file.read_text())


def test_a_machine_with_nothing_gets_a_configuration_that_lacks_its_escrow_only(file):
    shell = {"PATH": os.environ["PATH"], "DATABASE_URL": SERVERS[1], "CHAIN_BASE_RPC_URLS": GOOD["CHAIN_BASE_RPC_URLS"]}
    done = subprocess.run(
        [sys.executable, "manage.py", "setup", "--no-input", "--file", str(file), *SERVERS[2:]],
        env=shell, cwd=settings.BASE_DIR, capture_output=True, text=True, check=True,
    )  # fmt: skip

    made = read(file)
    result = json.loads(done.stdout.splitlines()[-1])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert made.keys() >= SECRETS
    assert not [name for name in (*SECRETS, "DATABASE_URL", "REDIS_URL") if made[name] in done.stdout + done.stderr]
    assert [*result["missing"]] == ["CHAIN_BASE_ESCROW"]
    assert "deploy_escrow base --owner" in result["missing"]["CHAIN_BASE_ESCROW"]
    assert len(result["relayers"]) == len({*result["relayers"], result["policySigner"]}) - 1 == 16
    released = check({**made, "CHAIN_BASE_ESCROW": GOOD["CHAIN_BASE_ESCROW"]}, "--deploy", "--fail-level", "WARNING")
    assert released.returncode == 0, released.stderr


def test_what_is_there_stays_to_the_last_byte(file):
    set_up(file, *SERVERS, "--chain", SEPOLIA)
    before = file.read_text()

    _, refused = set_up(file, *SERVERS)
    assert "is there, and stays as it is" in refused
    _, refused = set_up(file, "--add", "--chain", "base-sepolia=https://other.example")
    assert "CHAIN_BASE_SEPOLIA_RPC_URLS: the file has another value" in refused
    assert file.read_text() == before

    result, _ = set_up(file, "--add", "--chain", SEPOLIA)
    assert result["added"] == []
    assert file.read_text().strip() == before.strip()


def test_another_chain_and_a_key_that_is_missing_are_added(file):
    set_up(file, *SERVERS, "--chain", SEPOLIA)
    before = re.sub("(?m)^WEBHOOK_(SECRETS|SIGNING)_KEY=.*\n", "", file.read_text())
    file.write_text(before.rstrip("\n"))

    result, told = set_up(file, "--add", "--chain", "solana-devnet=https://solana.example")

    assert told is None
    assert set(result["added"]) == {
        "CHAIN_SOLANA_DEVNET_RPC_URLS", "POLICY_SIGNER_SOLANA_KEY", "WEBHOOK_SECRETS_KEY",
        "WEBHOOK_SIGNING_KEY",
    }  # fmt: skip
    assert [*result["missing"]] == ["CHAIN_BASE_SEPOLIA_ESCROW", "CHAIN_SOLANA_DEVNET_ESCROW"]
    assert result["solanaRelayer"]
    assert file.read_text().startswith(before.rstrip("\n") + "\n")
    assert find_problems(read(file)) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--database-url", "mysql://secret-value"], "DATABASE_URL is not a PostgreSQL URL"),
        (["--redis-url", "http://secret-value"], "REDIS_URL is not a redis://"),
        (["--host", "https://secret-value"], "ALLOWED_HOSTS is not a list of host names"),
        (["--host", "secret-value:443"], "ALLOWED_HOSTS is not a list of host names"),
        (["--console-url", "secret-value"], "CONSOLE_URL is not an https:// address"),
        (["--chain", "base-sepolia=secret-value"], "CHAIN_BASE_SEPOLIA_RPC_URLS is not a list of http://"),
        (["--chain", "nowhere=https://secret-value"], "There is no chain nowhere."),
        (["--chain", SEPOLIA, "--chain", "base=https://secret-value"], "must not be set together with"),
        (["--database-url", "postgres://a:it's-secret-value@h/n"], "DATABASE_URL holds '"),
    ],
)
def test_what_no_process_would_take_is_refused_and_nothing_is_written(file, arguments, said):
    _, told = set_up(file, *arguments)

    assert said in told
    assert "secret-value" not in told
    assert not file.exists()


def test_what_is_not_given_is_missing_and_is_added_later(file):
    result, _ = set_up(file)
    assert [*result["missing"]] == ["DATABASE_URL", "REDIS_URL", "ALLOWED_HOSTS", "CHAIN_<ALIAS>_RPC_URLS"]
    keys = read(file)

    result, _ = set_up(file, "--add", *SERVERS, "--chain", SEPOLIA)

    assert [*result["missing"]] == ["CHAIN_BASE_SEPOLIA_ESCROW"]
    assert keys.items() <= read(file).items()


def test_a_malformed_answer_is_asked_for_again(file):
    replies = iter([
        "localhost", "postgres://a:b@h/n",  # the second time as it should be
        "",  # no Redis yet
        "pay.example",
        "bitcoin", "base-sepolia", "http://one.example,http://one.example", "http://one.example",
        "base", "https://main.example", "",  # play money is served already
        "base-sepolia", "",
    ])  # fmt: skip
    told: list[str] = []

    given = answers.ask({}, lambda _question: next(replies), told.append)

    assert given == {
        "DATABASE_URL": "postgres://a:b@h/n",
        "ALLOWED_HOSTS": "pay.example",
        "CHAIN_BASE_SEPOLIA_RPC_URLS": "http://one.example",
    }
    reasons = ("PostgreSQL", "no chain bitcoin", "same node twice", "not be set together", "is set already")
    assert [reason for reason, said in zip(reasons, told, strict=True) if reason not in said] == []


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
def test_a_file_of_a_type_of_process_has_what_that_type_reads(setting):
    having = {kind for kind in ProcessType if belongs_to(kind, setting.name.replace("<ALIAS>", "BASE"))}
    assert having == ({*setting.holders, ProcessType.COMMAND} if setting.holders else set())


def test_what_looks_like_a_secret_of_another_program_stays_with_commands():
    for name in ("POSTGRES_PASSWORD", "RELAYR_SEED", "DEPLOYER_KY_KEY"):
        assert [kind for kind in ProcessType if belongs_to(kind, name)] == [ProcessType.COMMAND]
    for name in ("RETIRED_RECEIPT_KEYS", "SSL_CERT_FILE", "HTTPS_PROXY"):
        assert all(belongs_to(kind, name) for kind in ProcessType)


def test_each_type_of_process_gets_a_file_anew_and_misses_nothing(file, tmp_path):
    file.write_text("".join(f"{env_file.line_of(*pair)}\n" for pair in {**GOOD, **SOLANA, "DEPLOYER_KEY": "x"}.items()))
    folder = tmp_path / "of types"
    for _ in range(2):
        result, told = set_up(file, "--split", str(folder))
        assert told is None

    kinds = {"web", "worker", "webhooks", "beat", "mcp", "release"}
    assert {path.name for path in folder.iterdir()} == result["files"].keys() == {f"{kind}.env" for kind in kinds}
    assert read(folder / "release.env") == {n: value for n, value in read(file).items() if n != "DEPLOYER_KEY"}
    assert read(folder / "beat.env") == {"REDIS_URL": GOOD["REDIS_URL"]}
    assert read(folder / "mcp.env") == {}
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_what_lacks_an_escrow_is_not_split_so_that_nothing_starts_without_one(file, tmp_path):
    set_up(file, *SERVERS, "--chain", SEPOLIA)

    _, told = set_up(file, "--split", str(tmp_path / "of types"))

    assert "CHAIN_BASE_SEPOLIA_ESCROW is missing. DEPLOYER_KEY=… python manage.py deploy_escrow base-sepolia" in told
    assert not (tmp_path / "of types").exists()


def test_the_file_has_what_must_be_set_and_nothing_that_the_table_does_not_know():
    chains = [chain for chain in map(find_chain, ("base", "solana")) if chain]
    text = re.sub("CHAIN_(BASE|SOLANA)_", "CHAIN_<ALIAS>_", variables.render({}, chains))
    written = set(re.findall(r"^# ([A-Z0-9_<>]+)=", text, re.MULTILINE))

    assert {one.name for one in SETTINGS if one.is_required} <= written <= {one.name for one in SETTINGS}


def test_what_processes_would_refuse_is_not_split_either(file, tmp_path):
    wrong = {**GOOD, "LOG_LEVEL": "secret-value", "EMAIL_URL": "https://secret-value"}
    file.write_text("".join(f"{env_file.line_of(*pair)}\n" for pair in wrong.items()))

    _, told = set_up(file, "--split", str(tmp_path / "of types"))

    assert "EMAIL_URL is not an smtp:// or smtps:// URL." in told
    assert "LOG_LEVEL is none of" in told
    assert "secret-value" not in told
