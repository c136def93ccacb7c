"""The servers of one installation: who starts them, who stops them, what survives."""

import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from eth_account import Account
from eth_account.hdaccount import key_from_seed
from eth_utils.crypto import keccak

from workshop.localnet import postgres
from workshop.localnet.folder import Folder, locked
from workshop.tests.localnet.installation import wait_for

pytestmark = pytest.mark.long(50)

MILLION = 1_000_000 * 10**6


def balance(installation, token, owner):
    data = f"0x70a08231{owner[2:].rjust(64, '0')}"
    return int(installation.rpc("eth_call", {"to": token, "data": data}, "latest"), 16)


def test_the_first_start_brings_everything_and_the_second_finds_it_again(install):
    here = install()
    process, environment = here.use()
    assert set(here.pids()) == {"postgres", "redis", "evm", "solana"}
    assert postgres.socket_folder(here.folder).stat().st_mode & 0o077 == 0
    assert here.sql("SELECT name, setting FROM pg_settings WHERE name IN "
                    "('listen_addresses', 'fsync', 'synchronous_commit') ORDER BY name") == [
        ("fsync", "on"), ("listen_addresses", ""), ("synchronous_commit", "on"),
    ]  # fmt: skip
    assert here.sql("SELECT current_database(), pg_encoding_to_char(encoding), datcollate "
                    "FROM pg_database WHERE datname = 'allowance'") == [("allowance", "UTF8", "C")]  # fmt: skip
    tokens = dict(pair.split("=") for pair in environment["CHAIN_EVM_LOCALNET_TOKENS"].split(","))
    assert list(tokens) == ["USDC", "USDT", "PYUSD", "EURC"]
    escrow = environment["CHAIN_EVM_LOCALNET_ESCROW"]
    assert {balance(here, token, escrow) for token in tokens.values()} == {MILLION}
    assert here.solana("getBalance", environment["CHAIN_SOLANA_LOCALNET_ESCROW"])["value"]
    here.sql("CREATE TABLE kept AS SELECT 42 AS answer")
    here.redis().set("kept", "yes")
    block = here.rpc("eth_getBlockByNumber", "latest", False)
    slot = here.solana("getSlot", {"commitment": "processed"})
    process.leave()
    assert here.pids() == {}

    process, again = here.use()

    assert again == environment
    assert here.sql("SELECT answer FROM kept") == [(42,)]
    assert here.redis().get("kept") == b"yes"
    assert here.rpc("eth_getBlockByHash", block["hash"], False) == block
    assert here.solana("getSlot", {"commitment": "processed"}) >= slot
    names = ("PostgreSQL", "Redis", "the EVM node", "the Solana node")
    assert sorted(process.progress) == sorted(f"starting {name}" for name in names)


def test_the_last_process_out_stops_the_servers_and_nothing_else(install):
    here, beside = (install(name, only=["redis", "evm"]) for name in ("here", "beside"))
    other, _ = beside.use()
    first, _ = here.use()
    second, _ = here.use()
    assert second.progress == []
    assert here.rpc("eth_getBlockByNumber", "0x0", False) != beside.rpc("eth_getBlockByNumber", "0x0", False)

    first.leave()
    assert set(here.pids()) == {"redis", "evm"}
    second.leave()
    assert here.pids() == {}
    assert set(beside.pids()) == {"redis", "evm"}
    other.leave()
    assert beside.pids() == {}


def test_servers_left_by_a_killed_process_are_used_again(install):
    here = install(only=["redis", "evm"])
    process, _ = here.use()
    pids = here.pids()
    process.kill()
    assert here.pids() == pids

    process, _ = here.use()

    assert here.pids() == pids
    process.leave()
    assert here.pids() == {}


def test_several_processes_start_at_once(install):
    here = install()
    processes = [here.process() for _ in range(4)]
    environments = [process.wait_until_ready() for process in processes]
    assert all(environment == environments[0] for environment in environments)
    done = [text for process in processes for text in process.progress]
    assert sorted(done) == sorted(set(done))
    for process in processes:
        assert set(here.pids()) == {"postgres", "redis", "evm", "solana"}
        process.leave()
    assert here.pids() == {}


def test_who_asks_for_a_port_while_it_is_being_chosen_gets_the_one_that_was_chosen(tmp_path, monkeypatch):
    all_have_seen_that_there_is_none = threading.Barrier(8)

    def lock(path):
        all_have_seen_that_there_is_none.wait(60)
        return locked(path)

    monkeypatch.setattr("workshop.localnet.folder.locked", lock)
    here = Folder(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        ports = set(pool.map(here.port, ["redis"] * 8))
    assert ports == {here.port("redis")}


@pytest.mark.parametrize(
    ("server", "moments"),
    [
        ("postgres", ("creating the PostgreSQL", "starting PostgreSQL")),
        ("redis", ("starting Redis",)),
        ("evm", ("starting the EVM", "deploying")),
        ("solana", ("starting the Solana", "making the mints")),
    ],
)
def test_a_start_that_was_killed_half_way_is_finished_by_the_next(install, server, moments):
    # They start side by side: of all together nobody knows how far the others are when one is killed.
    here = install(only=[server])
    for moment in moments:
        process = here.process(DIE_AT=moment)
        assert process.popen.wait(60) == -signal.SIGKILL
        process.popen.communicate()

    process, environment = here.use()

    assert set(here.pids()) == {server}
    works = {
        "postgres": lambda: here.sql("SELECT 1") == [(1,)],
        "redis": lambda: here.redis().ping(),
        "evm": lambda: here.rpc("eth_getCode", environment["CHAIN_EVM_LOCALNET_ESCROW"]) != "0x",
        "solana": lambda: here.solana("getBalance", environment["CHAIN_SOLANA_LOCALNET_ESCROW"])["value"] > 0,
    }
    assert works[server]()
    process.leave()


def test_a_port_that_was_taken_meanwhile_is_replaced(install):
    here = install(only=["redis"])
    process, before = here.use()
    process.leave()
    with socket.socket() as thief:
        thief.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        thief.bind(("127.0.0.1", here.folder.port("redis")))
        thief.listen()
        # What an earlier process was told, a later one may find in its environment.
        process, after = here.use(SECRET_KEY="mine")
        assert "SECRET_KEY" not in after
        assert after["REDIS_URL"] != before["REDIS_URL"]
        assert here.redis().ping()


def test_a_killed_server_is_started_again(install):
    here = install(only=["redis", "evm", "solana"])
    process, _ = here.use()
    block = here.rpc("eth_getBlockByNumber", "latest", False)
    pids = here.pids()
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: here.pids() == {})

    second, _ = here.use()

    assert not set(here.pids().values()) & set(pids.values())
    assert here.rpc("eth_getBlockByHash", block["hash"], False) == block
    process.leave()
    assert set(here.pids()) == {"redis", "evm", "solana"}
    second.leave()


def test_another_relayer_seed_becomes_effective(install):
    here = install(only=["evm"])
    here.use()[0].leave()
    seed = "11" * 64
    process, environment = here.use(RELAYER_SEED=seed, RELAYERS_PER_CHAIN="2")
    assert "RELAYER_SEED" not in environment
    for index, is_relayer in enumerate([True, True, False]):
        key = key_from_seed(bytes.fromhex(seed), f"m/44'/60'/0'/0/{index}")
        relayer = Account.from_key(key).address
        assert bool(int(here.rpc("eth_getBalance", relayer), 16)) == is_relayer
        question = f"0x{keccak(text='relayers(address)')[:4].hex()}{relayer[2:].rjust(64, '0')}"
        call = {"to": environment["CHAIN_EVM_LOCALNET_ESCROW"], "data": question}
        assert bool(int(here.rpc("eth_call", call), 16)) == is_relayer
    process.leave()


def test_other_keys_have_another_escrow_on_solana(install):
    here = install(only=["solana"])
    process, before = here.use()
    process.leave()
    process, after = here.use(POLICY_SIGNER_SOLANA_KEY="22" * 32)
    assert "POLICY_SIGNER_SOLANA_KEY" not in after
    assert after["CHAIN_SOLANA_LOCALNET_TOKENS"] == before["CHAIN_SOLANA_LOCALNET_TOKENS"]
    escrows = [one["CHAIN_SOLANA_LOCALNET_ESCROW"] for one in (before, after)]
    assert escrows[0] != escrows[1]
    assert all(here.solana("getMultipleAccounts", escrows)["value"])
    process.leave()
