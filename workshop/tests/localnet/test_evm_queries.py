"""What the chain answers: tags, calls, logs, fees, time, and JSON-RPC itself."""

from typing import Any

import pytest

from workshop.tests.localnet.chain import FAUCET, GENESIS_S, STRANGER, Chain, calldata

OTHER = "0x" + "33" * 20
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"


def word(address):
    return "0x" + address[2:].lower().rjust(64, "0")


def hex_call(signature, *arguments):
    return "0x" + calldata(signature, *arguments).hex()


def test_finalized_is_two_blocks_behind_latest(chain):
    def numbers():
        tags = ("earliest", "finalized", "safe", "latest", "pending")
        return [int(chain.rpc("eth_getBlockByNumber", tag, False)["number"], 16) for tag in tags]

    assert numbers() == [0, 0, 0, 0, 1]
    for _ in range(5):
        chain.mine()
    assert numbers() == [0, 3, 3, 5, 6]
    assert chain.rpc("eth_blockNumber") == "0x5"
    assert chain.rpc("eth_getBlockByNumber", "0x6", False) is None


def test_block_times_follow_the_clock_and_strictly_increase(chain):
    def latest_s():
        return int(chain.rpc("eth_getBlockByNumber", "latest", False)["timestamp"], 16)

    chain.mine(seconds=5)
    assert latest_s() == GENESIS_S + 5
    chain.mine(seconds=0)
    assert latest_s() == GENESIS_S + 6
    chain.mine(seconds=-60)
    assert latest_s() == GENESIS_S + 7
    assert chain.rpc("evm_increaseTime", 86_400) == hex(86_400)
    chain.mine(seconds=60)
    assert latest_s() == GENESIS_S + 5 + 86_400


def test_a_reopened_chain_is_the_same_chain(chain, tmp_path):
    token = chain.deploy_token()
    sent = chain.send(1)
    chain.mine()
    chain.rpc("evm_increaseTime", 100)
    asked: list[tuple[Any, ...]] = [
        ("eth_getBlockByNumber", "latest", True),
        ("eth_getTransactionReceipt", sent),
        ("eth_getCode", token),
        ("eth_getTransactionCount", FAUCET.address),
    ]
    before = [chain.rpc(*question) for question in asked]
    chain.database.close()

    again = Chain(tmp_path)

    assert [again.rpc(*question) for question in asked] == before
    again.send(2)
    assert again.mine() == 3
    latest = again.rpc("eth_getBlockByNumber", "latest", False)
    assert int(latest["timestamp"], 16) == GENESIS_S + 101
    again.database.close()


def test_a_call_that_reverts_says_why(chain):
    # Creation code that copies what stands behind it, and reverts with that.
    reason = hex_call("Error(string)", "no, thanks")
    call = {"from": OTHER, "data": "0x6064600c60003960646000fd" + reason[2:]}
    for method in ("eth_call", "eth_estimateGas"):
        error = chain.rpc(method, call)
        assert error == {"code": 3, "message": "execution reverted: no, thanks", "data": reason}


def test_a_call_that_reverts_with_an_error_of_the_contracts_own_returns_it(chain):
    token = chain.deploy_token()
    call = {"from": OTHER, "to": token, "data": hex_call("transfer(address,uint256)", STRANGER, 1)}
    returned = hex_call("ERC20InsufficientBalance(address,uint256,uint256)", OTHER, 0, 1)
    for method in ("eth_call", "eth_estimateGas"):
        assert chain.rpc(method, call) == {"code": 3, "message": "execution reverted", "data": returned}


def test_calls_see_the_state_after_the_block_they_ask_about(chain):
    token = chain.deploy_token()
    chain.send(1, to=token, data=calldata("mint(address,uint256)", OTHER, 5), gas=200_000)
    chain.mine()
    call = {"to": token, "input": hex_call("balanceOf(address)", OTHER)}
    assert int(chain.rpc("eth_call", call, "latest"), 16) == 5
    assert int(chain.rpc("eth_call", call, "0x1"), 16) == 0
    assert chain.rpc("eth_getCode", token, "0x0") == "0x"
    assert chain.rpc("eth_call", call, "0x9")["message"] == "header not found"


def test_an_estimate_is_enough_and_at_most_two_percent_too_much(chain):
    token = chain.deploy_token()
    data = calldata("mint(address,uint256)", OTHER, 5)
    call = {"from": FAUCET.address, "to": token, "data": "0x" + data.hex()}
    estimate = int(chain.rpc("eth_estimateGas", call), 16)
    sent = chain.send(1, to=token, data=data, gas=estimate)
    chain.mine()
    receipt = chain.rpc("eth_getTransactionReceipt", sent)
    assert receipt["status"] == "0x1"
    assert int(receipt["gasUsed"], 16) <= estimate <= 1.02 * int(receipt["gasUsed"], 16)
    plain = {"from": FAUCET.address, "to": STRANGER, "value": "0x1"}
    assert int(chain.rpc("eth_estimateGas", plain), 16) == 21_000


@pytest.fixture
def transfers(chain):
    """Block 2 mints 10 to the faucet; blocks 3 and 4 transfer 1 to a stranger and to another."""
    token = chain.deploy_token()
    calls = [
        calldata("mint(address,uint256)", FAUCET.address, 10),
        calldata("transfer(address,uint256)", STRANGER, 1),
        calldata("transfer(address,uint256)", OTHER, 1),
    ]
    for nonce, data in enumerate(calls, start=1):
        chain.send(nonce, to=token, data=data, gas=200_000)
        chain.mine()
    return token


@pytest.mark.parametrize(
    ("wanted", "blocks"),
    [
        ({"topics": [TRANSFER]}, [2, 3, 4]),
        ({"topics": [TRANSFER, word(FAUCET.address)]}, [3, 4]),
        ({"topics": [None, None, word(STRANGER)]}, [3]),
        ({"topics": [[TRANSFER], [], [word(STRANGER), word(OTHER)]]}, [3, 4]),
        ({"topics": [TRANSFER], "fromBlock": "0x3", "toBlock": "0x3"}, [3]),
        ({"topics": [TRANSFER], "fromBlock": "0x3", "toBlock": "finalized"}, "error"),
        ({"topics": [TRANSFER], "fromBlock": "0x3", "toBlock": "0xff"}, [3, 4]),
        ({"fromBlock": "0x5", "toBlock": "0xff"}, []),
        ({"address": [OTHER, STRANGER]}, []),
        ({"topics": [word(OTHER)]}, []),
    ],
)
def test_logs_are_found_by_address_topics_and_blocks(chain, transfers, wanted, blocks):
    found = chain.rpc("eth_getLogs", {"fromBlock": "0x0", "address": transfers, **wanted})
    if blocks == "error":
        assert found["message"] == "invalid block range params"
    else:
        assert [int(log["blockNumber"], 16) for log in found] == blocks


def test_logs_of_a_block_are_found_by_its_hash(chain, transfers):
    block = chain.rpc("eth_getBlockByNumber", "0x3", True)
    (log,) = chain.rpc("eth_getLogs", {"blockHash": block["hash"]})
    receipt = chain.rpc("eth_getTransactionReceipt", block["transactions"][0]["hash"])
    assert receipt["logs"] == [log]
    assert log["topics"] == [TRANSFER, word(FAUCET.address), word(STRANGER)]
    assert int(log["data"], 16) == 1
    assert chain.rpc("eth_getLogs", {"blockHash": "0x" + "00" * 32})["message"] == "unknown block"


def test_fees_fall_while_nobody_pays_and_history_tells(chain):
    chain.send(0)
    chain.mine()
    chain.mine()
    history = chain.rpc("eth_feeHistory", "0x5", "latest", [50])
    assert history["oldestBlock"] == "0x0"
    fees = [int(fee, 16) for fee in history["baseFeePerGas"]]
    assert len(fees) == 4
    assert fees == sorted(fees, reverse=True)
    assert history["reward"] == [["0x0"], ["0x3b9aca00"], ["0x0"]]
    assert int(chain.rpc("eth_gasPrice"), 16) == fees[-1] + 10**9


def request(**fields):
    return {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", **fields}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32600),
        ([], -32600),
        (1, -32600),
        ({"id": 1}, -32600),
        (request(jsonrpc="1.0"), -32600),
        (request(method=5), -32600),
        (request(method="eth_nothing"), -32601),
        (request(params={"a": 1}), -32602),
        (request(params=["too many"]), -32602),
        (request(method="eth_getBalance"), -32602),
        (request(method="eth_getBalance", params=["0x12"]), -32602),
        (request(method="eth_getBalance", params=[STRANGER, "0x01"]), -32602),
        (request(method="eth_getBalance", params=[STRANGER, "newest"]), -32602),
        (request(method="eth_getLogs", params=["x"]), -32602),
        (request(method="eth_getLogs", params=[{"topics": [[1]]}]), -32602),
        (request(method="eth_call", params=[{"to": None, "data": "0xzz"}]), -32602),
        (request(method="eth_feeHistory", params=["0x1", "latest", ["a"]]), -32602),
        (request(method="eth_sendTransaction", params=[{}]), -32601),
    ],
)
def test_a_bad_request_is_answered_with_its_error(chain, body, code):
    assert chain.ask(body)["error"]["code"] == code


def test_a_batch_is_answered_in_order_without_its_notifications(chain):
    notification = {"jsonrpc": "2.0", "method": "evm_mine"}
    batch = [request(id="a"), notification, request(id=2, method="nothing"), 5]
    answers = chain.ask(batch)
    assert [answer["id"] for answer in answers] == ["a", 2, None]
    assert [answer.get("result") for answer in answers] == ["0x7a69", None, None]
    assert [answer["error"]["code"] for answer in answers[1:]] == [-32601, -32600]
    assert chain.rpc("eth_blockNumber") == "0x1"
    assert chain.ask(notification) is None
