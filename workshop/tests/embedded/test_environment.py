"""The variables that an installation provides, and those it leaves to the user."""

import hashlib
import json
import os
import stat

import base58
import pytest
from eth_account import Account
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.token.constants import TOKEN_PROGRAM_ID

from foundation.environment.connections import read_database
from workshop import embedded
from workshop.localnet import postgres
from workshop.localnet.errors import LocalnetError
from workshop.localnet.folder import open_folder

VARIABLES = {
    "DATABASE_URL",
    "REDIS_URL",
    "SECRET_KEY",
    "POLICY_SIGNER_ED25519_KEY",
    "WEBHOOK_SIGNING_KEY",
    "POLICY_SIGNER_SECP256K1_KEY",
    "POLICY_SIGNER_SOLANA_KEY",
    "RELAYER_SEED",
    "CHAIN_EVM_LOCALNET_RPC_URLS",
    "CHAIN_EVM_LOCALNET_ESCROW",
    "CHAIN_EVM_LOCALNET_TOKENS",
    "CHAIN_SOLANA_LOCALNET_RPC_URLS",
    "CHAIN_SOLANA_LOCALNET_ESCROW",
    "CHAIN_SOLANA_LOCALNET_OWNER",
    "CHAIN_SOLANA_LOCALNET_TOKENS",
    "DEPOSIT_KEY",
}
RPC_URLS = {"CHAIN_EVM_LOCALNET_RPC_URLS", "CHAIN_SOLANA_LOCALNET_RPC_URLS"}


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EMBEDDED_DIR", str(tmp_path / "data"))


def test_everything_is_provided_once_and_for_all():
    provided = embedded.environment()
    assert set(provided) == VARIABLES
    assert embedded.environment() == provided
    assert len(bytes.fromhex(provided["POLICY_SIGNER_ED25519_KEY"])) == 32
    assert len(bytes.fromhex(provided["RELAYER_SEED"])) == 64
    assert Account.from_key(provided["POLICY_SIGNER_SECP256K1_KEY"]).address


def test_nothing_is_started_and_nobody_else_can_read_the_secrets(tmp_path):
    embedded.environment()
    names = {path.name for path in (tmp_path / "data").iterdir()}
    assert names == {"keys.json", "keys.lock", "ports.json"}
    assert stat.S_IMODE((tmp_path / "data/keys.json").stat().st_mode) == 0o600
    assert not (tmp_path / "data").stat().st_mode & 0o067


def test_the_settings_read_the_database_url():
    url = embedded.environment()["DATABASE_URL"]
    read = read_database(url)
    assert read["HOST"] == str(postgres.socket_folder(open_folder()))
    assert (read["NAME"], read["USER"], read["PORT"]) == ("allowance", "postgres", "5432")
    assert read["ENGINE"] == "django.db.backends.postgresql"


def test_a_path_with_odd_characters_survives_the_database_url(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBEDDED_DIR", str(tmp_path / "my data+100%"))
    read = read_database(embedded.environment()["DATABASE_URL"])
    assert read["HOST"] == str(postgres.socket_folder(open_folder()))


def test_the_socket_of_a_long_path_lies_elsewhere(monkeypatch, tmp_path):
    monkeypatch.setenv("EMBEDDED_DIR", str(tmp_path / ("long" * 25)))
    read = read_database(embedded.environment()["DATABASE_URL"])
    assert len(read["HOST"]) < 60
    monkeypatch.setenv("EMBEDDED_DIR", str(tmp_path / ("lang" * 25)))
    assert read_database(embedded.environment()["DATABASE_URL"]) != read


@pytest.mark.parametrize("name", sorted(VARIABLES - RPC_URLS))
def test_what_the_user_has_set_is_not_provided(monkeypatch, name):
    monkeypatch.setenv(name, "mine")
    assert set(embedded.environment()) == VARIABLES - {name}


@pytest.mark.parametrize("chain", ["CHAIN_EVM_LOCALNET", "CHAIN_SOLANA_LOCALNET"])
def test_of_a_chain_of_the_user_nothing_is_provided(monkeypatch, chain):
    monkeypatch.setenv(f"{chain}_RPC_URLS", "http://localhost:8545")
    assert set(embedded.environment()) == {name for name in VARIABLES if not name.startswith(chain)}


def test_where_both_chains_are_the_users_there_is_nobody_who_could_deposit(monkeypatch):
    for name in RPC_URLS:
        monkeypatch.setenv(name, "http://localhost:8545")
    assert "DEPOSIT_KEY" not in embedded.environment()


def test_the_escrow_on_solana_follows_the_keys_of_the_environment(monkeypatch):
    own = embedded.environment()["CHAIN_SOLANA_LOCALNET_ESCROW"]
    monkeypatch.setenv("RELAYER_SEED", "11" * 64)
    monkeypatch.setenv("POLICY_SIGNER_SOLANA_KEY", "22" * 32)
    relayer = Keypair.from_seed_and_derivation_path(bytes.fromhex("11" * 64), "m/44'/501'/0'/0'").pubkey()
    signer, owner = Keypair.from_seed(bytes.fromhex("22" * 32)).pubkey(), Keypair().pubkey()
    monkeypatch.setenv("CHAIN_SOLANA_LOCALNET_OWNER", str(owner))
    seed = base58.b58encode(hashlib.sha256(bytes(signer) + bytes(owner)).digest()).decode()[:32]
    expected = Pubkey.create_with_seed(relayer, seed, TOKEN_PROGRAM_ID)
    assert embedded.environment()["CHAIN_SOLANA_LOCALNET_ESCROW"] == str(expected) != own


@pytest.mark.parametrize(
    ("missing", "follows"),
    [
        ("POLICY_SIGNER_SOLANA_KEY", {"POLICY_SIGNER_SOLANA_KEY", "CHAIN_SOLANA_LOCALNET_ESCROW"}),
        ("SOLANA_OWNER_KEY", {"CHAIN_SOLANA_LOCALNET_OWNER", "CHAIN_SOLANA_LOCALNET_ESCROW"}),
    ],
)
def test_the_keys_of_an_older_version_are_kept_and_completed(tmp_path, missing, follows):
    before = embedded.environment()
    file = tmp_path / "data/keys.json"
    older = json.loads(file.read_text())
    del older[missing]
    file.write_text(json.dumps(older))
    after = embedded.environment()
    assert {name for name in VARIABLES if before[name] != after[name]} == follows
    assert embedded.environment() == after


def test_what_was_provided_and_then_set_is_still_ours(monkeypatch):
    provided = embedded.environment()
    for name, value in provided.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("CHAIN_EVM_LOCALNET_ESCROW")
    assert set(embedded.environment()) == {"CHAIN_EVM_LOCALNET_ESCROW"}


def test_with_all_urls_set_nothing_is_started(monkeypatch, tmp_path):
    for name in ("DATABASE_URL", "REDIS_URL", *RPC_URLS):
        monkeypatch.setenv(name, "elsewhere://")
    embedded.start()
    assert not (tmp_path / "data/lease").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_the_folder_of_somebody_else_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    os.chown(tmp_path / "data", 12345, 12345)
    with pytest.raises(LocalnetError, match="belongs to user 12345"):
        embedded.environment()
