"""The node over HTTP, and web3 against it."""

import http.client
import json
import threading

import pytest
import requests
from web3 import HTTPProvider, Web3
from web3.exceptions import ContractLogicError, TransactionNotFound

from workshop.embedded.prepared import TOKEN_ARTIFACT
from workshop.localnet.jsonrpc.server import Server
from workshop.tests.localnet.chain import FAUCET, STRANGER

JSON = {"Content-Type": "application/json"}
CHAIN_ID = {"jsonrpc": "2.0", "id": 1, "method": "eth_chainId", "params": []}


@pytest.fixture
def server(chain):
    made = Server(chain.protocol, 0)
    thread = threading.Thread(target=made.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def connection(server):
    made = http.client.HTTPConnection(*server.server_address)
    yield made
    made.close()


def test_one_connection_carries_many_requests(connection):
    for _ in range(3):
        connection.request("POST", "/", json.dumps(CHAIN_ID), JSON)
        response = connection.getresponse()
        assert response.status == 200
        assert json.load(response)["result"] == "0x7a69"
        assert not response.will_close


def test_it_listens_on_loopback_only(server):
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("GET", {}, 405),
        ("POST", {"Content-Type": "text/plain"}, 415),
        ("POST", JSON | {"Content-Length": "99999999"}, 413),
        ("POST", JSON | {"Transfer-Encoding": "chunked"}, 411),
    ],
)
def test_what_is_no_request_is_refused_and_the_server_lives_on(connection, method, headers, status):
    connection.putrequest(method, "/")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    assert connection.getresponse().status == status
    connection.close()
    connection.request("POST", "/", json.dumps([CHAIN_ID]), JSON)
    assert json.load(connection.getresponse())[0]["result"] == "0x7a69"


def test_web3_works_with_it_unchanged(chain, server):
    session = requests.Session()
    w3 = Web3(HTTPProvider(f"http://127.0.0.1:{server.server_port}", session=session))
    assert w3.is_connected()
    assert w3.eth.chain_id == 31337
    artifact = json.loads(TOKEN_ARTIFACT.read_text())
    token = w3.eth.contract(chain.deploy_token(), abi=artifact["abi"])
    assert token.functions.symbol().call() == "TST"
    sender = {"from": FAUCET.address}

    mint = token.functions.mint(FAUCET.address, 7)
    transaction = mint.build_transaction(sender | {"nonce": 1})
    sent = w3.eth.send_raw_transaction(FAUCET.sign_transaction(transaction).raw_transaction)
    assert w3.eth.get_transaction(sent)["blockNumber"] is None
    with pytest.raises(TransactionNotFound):
        w3.eth.get_transaction_receipt(sent)
    chain.mine()

    receipt = w3.eth.wait_for_transaction_receipt(sent)
    (event,) = token.events.Transfer().process_receipt(receipt)
    assert event["args"]["value"] == 7
    assert token.events.Transfer().get_logs(from_block=0) == [event]
    for tag in ("latest", "pending", "safe", "finalized", "earliest"):
        assert w3.eth.get_block(tag, full_transactions=True)["gasLimit"] == 60_000_000
    assert w3.eth.fee_history(2, "latest", [10])["oldestBlock"] == 1
    with pytest.raises(ContractLogicError, match="0xe450d38c"):
        token.functions.transfer(STRANGER, 8).call(sender)
    session.close()
