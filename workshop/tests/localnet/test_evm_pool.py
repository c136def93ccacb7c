"""The pool behaves as a real node's: what waits, what is replaced, what is refused."""

import pytest

from workshop.tests.localnet.chain import FAUCET, GWEI, STRANGER, calldata, raw


def test_a_transaction_waits_and_is_mined(chain):
    sent = chain.send(0)
    waiting = chain.rpc("eth_getTransactionByHash", sent)
    assert waiting["blockNumber"] is None
    assert chain.rpc("eth_getTransactionReceipt", sent) is None
    assert chain.rpc("eth_getTransactionCount", FAUCET.address, "pending") == "0x1"
    assert chain.rpc("eth_getTransactionCount", FAUCET.address, "latest") == "0x0"
    assert chain.rpc("eth_getBlockByNumber", "pending", False)["transactions"] == [sent]

    chain.mine()

    mined = chain.rpc("eth_getTransactionByHash", sent)
    receipt = chain.rpc("eth_getTransactionReceipt", sent)
    assert mined["blockNumber"] == receipt["blockNumber"] == "0x1"
    assert (receipt["status"], receipt["gasUsed"]) == ("0x1", "0x5208")
    assert receipt["effectiveGasPrice"] == mined["gasPrice"]
    assert int(mined["gasPrice"], 16) == GWEI + int(
        chain.rpc("eth_getBlockByNumber", "0x1", False)["baseFeePerGas"], 16
    )
    assert chain.rpc("eth_getBalance", STRANGER, "latest") == "0x1"
    assert chain.rpc("eth_getBalance", STRANGER, "earliest") == "0x0"


def test_what_follows_a_gap_waits_until_the_gap_is_filled(chain):
    later = [chain.send(1), chain.send(2)]
    chain.mine()
    assert [chain.rpc("eth_getTransactionReceipt", one) for one in later] == [None, None]
    assert chain.rpc("eth_getTransactionCount", FAUCET.address, "pending") == "0x0"

    first = chain.send(0)
    assert chain.rpc("eth_getTransactionCount", FAUCET.address, "pending") == "0x3"
    chain.mine()

    mined = chain.rpc("eth_getBlockByNumber", "latest", False)
    assert mined["transactions"] == [first, *later]


def test_a_transaction_with_the_same_nonce_takes_the_place_of_a_cheaper_one(chain):
    cheap = chain.send(0)
    message = chain.send(0, maxFeePerGas=11 * GWEI - 1, maxPriorityFeePerGas=2 * GWEI)
    assert message == "replacement transaction underpriced"
    message = chain.send(0, maxFeePerGas=20 * GWEI, maxPriorityFeePerGas=GWEI)
    assert message == "replacement transaction underpriced"

    dear = chain.send(0, maxFeePerGas=11 * GWEI, maxPriorityFeePerGas=GWEI * 11 // 10)

    assert chain.rpc("eth_getTransactionByHash", cheap) is None
    chain.mine()
    assert chain.rpc("eth_getTransactionReceipt", dear)["status"] == "0x1"
    assert chain.rpc("eth_getTransactionReceipt", cheap) is None


def test_a_transaction_that_offers_too_little_waits_for_a_lower_base_fee(chain):
    low = chain.send(0, maxFeePerGas=600_000_000, maxPriorityFeePerGas=1)
    chain.mine()
    assert chain.rpc("eth_getTransactionReceipt", low) is None
    while chain.rpc("eth_getTransactionReceipt", low) is None:
        assert chain.mine() < 10


def test_a_known_transaction_is_not_taken_twice(chain):
    chain.send(0)
    assert chain.send(0) == "already known"
    chain.mine()
    assert chain.send(0) == "nonce too low: next nonce 1, tx nonce 0"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"chainId": 1}, "invalid chain id for signer: have 1 want 31337"),
        ({"gas": 20_999}, "intrinsic gas too low: gas 20999, minimum needed 21000"),
        ({"gas": 21_100, "data": b"\1" * 10}, "intrinsic gas too low"),
        ({"gas": 24_000, "data": b"\1" * 100}, "insufficient gas for floor data gas cost"),
        ({"gas": 60_000_001}, "exceeds block gas limit"),
        ({"value": 10**27}, "insufficient funds for gas * price + value"),
        ({"maxPriorityFeePerGas": 11 * GWEI}, "max priority fee per gas higher than max fee"),
        ({"to": None, "gas": 9_000_000, "data": b"\0" * 49_153}, "max initcode size exceeded"),
    ],
)
def test_an_impossible_transaction_is_refused_with_the_reason(chain, fields, message):
    assert chain.send(0, **fields).startswith(message)


def test_what_waits_counts_against_the_balance(chain):
    chain.send(0, value=6 * 10**26)
    assert "queued cost" in chain.send(1, value=6 * 10**26)


@pytest.mark.parametrize("garbage", ["0x", "0x00", "0x02", "0x02c0", "0xf8", "0xc0", "0x7f", "0x03c0", "0xff" * 20])
def test_garbage_is_refused(chain, garbage):
    error = chain.rpc("eth_sendRawTransaction", garbage)
    assert error["code"] in (-32000, -32602)


def test_a_forged_signature_is_refused_or_means_another_sender(chain):
    forged = raw(0)[:-2] + "00"
    error = chain.rpc("eth_sendRawTransaction", forged)
    assert error["code"] == -32000


def test_a_legacy_transaction_is_taken_only_with_replay_protection(chain):
    price = {"gasPrice": 10 * GWEI, "type": None, "maxFeePerGas": None, "maxPriorityFeePerGas": None}
    fields = {"nonce": 0, "to": STRANGER, "value": 1, "gas": 21_000, **price}
    legacy = {name: value for name, value in fields.items() if value is not None}
    unprotected = FAUCET.sign_transaction(legacy).raw_transaction.hex()
    error = chain.rpc("eth_sendRawTransaction", "0x" + unprotected)
    assert "replay-protected" in error["message"]

    protected = FAUCET.sign_transaction(legacy | {"chainId": 31337}).raw_transaction.hex()
    sent = chain.rpc("eth_sendRawTransaction", "0x" + protected)
    chain.mine()
    receipt = chain.rpc("eth_getTransactionReceipt", sent)
    assert (receipt["status"], receipt["type"]) == ("0x1", "0x0")
    assert receipt["effectiveGasPrice"] == hex(10 * GWEI)


def test_a_reverted_transaction_is_mined_with_status_zero(chain):
    token = chain.deploy_token()
    data = calldata("transfer(address,uint256)", STRANGER, 1)
    failed = chain.send(1, to=token, data=data, gas=100_000)
    chain.mine()
    receipt = chain.rpc("eth_getTransactionReceipt", failed)
    assert (receipt["status"], receipt["logs"]) == ("0x0", [])
    assert chain.rpc("eth_getTransactionCount", FAUCET.address) == "0x2"
