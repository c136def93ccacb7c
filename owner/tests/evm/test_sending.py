"""An EVM transaction that is no payment: waited for, whatever its nodes know already of it and of its nonce."""

import itertools
from time import time

import pytest

from foundation.kernel.errors import OperationRefused
from owner.evm import sending
from owner.evm.sending import Sender
from tests.support.fake_nodes import Node, Truth, adapter, order_of, receipt

KEY = b"\1" * 32
NONCE = 7


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(sending, "_PAUSE_S", 0)


def ask(node: Node, *, receipt_at_look: int | None) -> tuple[str, list[str]]:
    """Send by a node that knows the nonce to be used from the start, and gives the receipt at one of the looks."""
    told, looks = list[str](), itertools.count(1)

    def find_receipt(tx):
        return receipt(tx, []) if receipt_at_look is not None and next(looks) >= receipt_at_look else None

    node.answers = Truth("", order_of(), time()).answers(
        eth_estimateGas=hex(21_000),
        eth_getBalance=hex(10**18),
        eth_getTransactionCount=hex(NONCE + 1),
        eth_getTransactionReceipt=find_receipt,
        eth_sendRawTransaction=lambda _: hex(1),
    )
    sent = Sender(adapter(node), KEY, told.append).send(b"\2" * 20, b"", NONCE)
    return sent.tx, told


def test_a_receipt_may_come_later_than_its_nonce_is_known_to_be_used(node):
    tx, told = ask(node, receipt_at_look=5)

    assert told[0] == f"Sent {tx}"
    assert told[-1] == "It is in block 5."


def test_of_another_transaction_with_its_nonce_there_is_never_a_receipt(node):
    with pytest.raises(OperationRefused, match=r"Another transaction of 0x\w+ took the place of 0x\w+\. Try again\."):
        ask(node, receipt_at_look=None)
