"""`anvil_reorg`: the newest blocks are replaced by others, as if they had never been."""

import os
import signal

import pytest

from workshop.tests.localnet.chain import FAUCET, STRANGER, calldata

INVALID_PARAMS = -32602


def nonce_of(chain):
    return int(chain.rpc("eth_getTransactionCount", FAUCET.address, "latest"), 16)


def hash_of(chain, number):
    return chain.rpc("eth_getBlockByNumber", hex(number), False)["hash"]


def wei_of(chain, address):
    return int(chain.rpc("eth_getBalance", address, "latest"), 16)


@pytest.mark.parametrize("depth", [1, 2])
def test_the_newest_blocks_are_replaced_by_as_many_others_of_the_same_time(chain, depth):
    for _ in range(5):
        chain.mine()
    before = [chain.rpc("eth_getBlockByNumber", hex(number), False) for number in range(6)]

    assert chain.rpc("anvil_reorg", depth, []) is None

    after = [chain.rpc("eth_getBlockByNumber", hex(number), False) for number in range(6)]
    assert chain.rpc("eth_blockNumber") == "0x5"
    assert after[: 6 - depth] == before[: 6 - depth]
    for number in range(6 - depth, 6):
        assert after[number]["hash"] != before[number]["hash"]
        assert after[number]["parentHash"] == after[number - 1]["hash"]
        assert after[number]["timestamp"] == before[number]["timestamp"]
        assert chain.rpc("eth_getBlockByHash", before[number]["hash"], False) is None


def test_what_the_removed_blocks_held_is_gone_with_them(chain):
    token = chain.deploy_token()
    sent = chain.send(1, to=token, data=calldata("mint(address,uint256)", STRANGER, 5), gas=200_000)
    chain.mine()
    assert chain.rpc("eth_getLogs", {"address": token, "fromBlock": "0x2"})

    chain.rpc("anvil_reorg", 1, [])

    assert chain.rpc("eth_getTransactionReceipt", sent) is None
    assert chain.rpc("eth_getTransactionByHash", sent) is None
    assert chain.rpc("eth_getLogs", {"address": token, "fromBlock": "0x2"}) == []
    call = {"to": token, "data": "0x" + calldata("balanceOf(address)", STRANGER).hex()}
    assert int(chain.rpc("eth_call", call, "latest"), 16) == 0
    assert nonce_of(chain) == 1


def test_removed_transactions_vanish_unless_they_are_to_wait_again(chain):
    chain.mine()
    first = chain.send(0)
    chain.mine()

    chain.rpc("anvil_reorg", 1, [])
    chain.mine()
    assert wei_of(chain, STRANGER) == 0

    assert chain.send(0) == first
    chain.mine()
    second = chain.send(1)
    chain.mine()
    chain.rpc("anvil_reorg", 2, [], True)
    assert wei_of(chain, STRANGER) == 0
    assert chain.rpc("eth_getTransactionByHash", second)["blockHash"] is None
    chain.mine()
    assert [chain.rpc("eth_getTransactionReceipt", sent)["status"] for sent in (first, second)] == ["0x1", "0x1"]
    assert wei_of(chain, STRANGER) == 2


def test_a_nonce_that_was_used_in_a_removed_block_can_be_used_otherwise(chain):
    old = chain.send(0)
    chain.mine()
    chain.rpc("anvil_reorg", 1, [])
    new = chain.send(0, value=7)
    chain.mine()
    assert chain.rpc("eth_getTransactionReceipt", old) is None
    assert chain.rpc("eth_getTransactionReceipt", new)["status"] == "0x1"
    assert wei_of(chain, STRANGER) == 7


@pytest.mark.parametrize("parameters", [(0,), (3,), (6,), (-1,), ("2",), (True,), (1, [["0x00", 0]])])
def test_final_blocks_stay_and_new_ones_are_empty(chain, parameters):
    for _ in range(5):
        chain.mine()
    head = hash_of(chain, 5)
    assert chain.rpc("anvil_reorg", *parameters)["code"] == INVALID_PARAMS
    assert hash_of(chain, 5) == head


def test_genesis_stays(chain):
    chain.mine()
    genesis = hash_of(chain, 0)
    assert chain.rpc("anvil_reorg", 2, [])["code"] == INVALID_PARAMS
    assert chain.rpc("anvil_reorg", 1, []) is None
    assert hash_of(chain, 0) == genesis


def test_a_reorganised_chain_survives_kill_9(install):
    installation = install(only=["evm"])
    process, _ = installation.use()
    installation.rpc("evm_mine")
    last = int(installation.rpc("evm_mine"), 16)
    installation.rpc("anvil_reorg", 2, [])
    # Beside the reorganisation itself blocks go on being made; the replaced one is below them.
    replaced = installation.rpc("eth_getBlockByNumber", hex(last), False)
    os.kill(installation.pids()["evm"], signal.SIGKILL)
    process.kill()

    installation.use()

    assert installation.rpc("eth_getBlockByNumber", hex(last), False) == replaced
    assert int(installation.rpc("evm_mine"), 16) > last
