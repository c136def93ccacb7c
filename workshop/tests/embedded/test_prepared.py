"""What is known of chains that were prepared, and when it is not believed."""

import os
import subprocess
import sys

import pytest

from workshop.embedded import prepared
from workshop.embedded.keys import keys_of
from workshop.embedded.prepared import Prepared
from workshop.localnet.folder import Folder

CHAIN = "solana-localnet"
KEPT = Prepared("the faucet", {"CHAIN_SOLANA_LOCALNET_ESCROW": "an address"})
SHOWN = """
import sys
from workshop import embedded
embedded.start()
assert embedded.environment()["CHAIN_SOLANA_LOCALNET_ESCROW"]
print(*{"eth_account", "eth_abi", "web3", "solders", "spl"} & {name.partition(".")[0] for name in sys.modules})
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / CHAIN).mkdir()
    return Folder(tmp_path)


def test_a_process_that_finds_everything_prepared_loads_no_library_of_a_chain():
    given = {
        name: os.environ[name] for name in ("PATH", "HOME", "EMBEDDED_DIR", "ALLOWANCE_TEST_DIR") if name in os.environ
    }
    # The first may find what a process with other keys has kept, and prepares for these.
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", SHOWN], env=given, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_what_was_kept_is_found(folder):
    prepared.keep(folder, CHAIN, KEPT)
    assert prepared.find(folder, CHAIN) == KEPT
    assert prepared.find(folder, "evm-localnet") is None


@pytest.mark.parametrize(
    "name", ["RELAYER_SEED", "POLICY_SIGNER_SOLANA_KEY", "RELAYERS_PER_CHAIN", "CHAIN_SOLANA_LOCALNET_OWNER"]
)
def test_what_was_kept_for_another_environment_is_not_believed(folder, monkeypatch, name):
    monkeypatch.delenv(name, raising=False)
    prepared.keep(folder, CHAIN, KEPT)
    monkeypatch.setenv(name, "11" * 32)
    assert prepared.find(folder, CHAIN) is None


def test_what_was_kept_for_other_keys_is_not_believed(folder):
    prepared.keep(folder, CHAIN, KEPT)
    folder.keys_file.unlink()
    assert keys_of(folder)
    assert prepared.find(folder, CHAIN) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", "null", '{"asked": ""}'])
def test_a_file_that_is_broken_is_nothing(folder, content):
    (folder.path / CHAIN / "prepared.json").write_text(content)
    assert prepared.find(folder, CHAIN) is None
