"""What payees took by authorizations, read from the events of tokens; and what is signed for it."""

from decimal import Decimal

import pytest
from eth_account.messages import encode_typed_data
from eth_utils.address import to_checksum_address
from eth_utils.crypto import keccak

from chains.evm.answers import TRANSFER
from chains.evm.authorized_transfers import USED, read_authorized_outflows
from chains.evm.escrow_calls import domain_separator, transfer_digest, transfer_words
from foundation.kernel.assets import Asset
from tests.chains.contracts.typed_data import AUTHORIZATION_TYPE
from tests.support.fake_nodes import ESCROW, TOKEN

EURC = "0x" + "44" * 20
ASSETS = {TOKEN: Asset.USDC, EURC: Asset.EURC}
PAYEE, OTHER = "0x" + "33" * 20, "0x" + "55" * 20
NONCE = "0x" + "99" * 32
TX, OTHER_TX = "0x" + "77" * 32, "0x" + "78" * 32


def word(address):
    return "0x" + address[2:].rjust(64, "0")


def log(index, topics, data, *, token=TOKEN, tx=TX):
    where = {"blockNumber": "0x5", "blockHash": "0x" + "66" * 32, "logIndex": hex(index), "transactionHash": tx}
    return {"address": token, "topics": topics, "data": data, **where}


def used(index, *, payer=ESCROW, nonce=NONCE, **where):
    return log(index, [USED, word(payer), nonce], "0x", **where)


def moved(index, units, *, payer=ESCROW, payee=PAYEE, **where):
    return log(index, [TRANSFER, word(payer), word(payee)], "0x" + units.to_bytes(32).hex(), **where)


def read(*logs):
    found = read_authorized_outflows(logs, ESCROW, ASSETS)
    return [(one.escrow_id, one.asset, one.amount, one.recipient, one.log_index) for one in found]


TAKEN = (NONCE, Asset.USDC, Decimal("1.5"), to_checksum_address(PAYEE), 3)


def test_an_authorization_moves_what_the_next_transfer_says_in_whatever_order_nodes_tell():
    assert read(used(3), moved(4, 1_500_000)) == read(moved(4, 1_500_000), used(3)) == [TAKEN]


def test_transfers_of_our_own_payments_are_left_out():
    assert read(moved(1, 7), used(3), moved(4, 1_500_000), moved(6, 8)) == [TAKEN]
    assert read(moved(1, 7)) == []


def test_several_authorizations_of_one_transaction_have_a_transfer_each():
    second = "0x" + "98" * 32

    found = read(used(3), moved(4, 1_500_000), used(5, nonce=second), moved(6, 2_000_000, payee=OTHER))

    assert found == [TAKEN, (second, Asset.USDC, Decimal(2), to_checksum_address(OTHER), 5)]


@pytest.mark.parametrize(
    "following",
    [
        [],
        [used(4, nonce="0x" + "98" * 32)],
        [moved(4, 1_500_000, tx=OTHER_TX)],
        [moved(4, 1_500_000, token=EURC)],
        [moved(4, 1_500_000, payer=OTHER)],
    ],
    ids=["nothing", "another authorization", "another transaction", "another token", "another payer"],
)
def test_one_without_a_transfer_of_its_own_is_an_outflow_that_no_payment_is(following):
    first = read(used(3), *following)[0]

    assert first == (NONCE, Asset.USDC, Decimal(0), "", 3)


def test_what_others_have_authorized_is_left_out():
    assert read(used(3, payer=OTHER), moved(4, 1_500_000, payer=OTHER)) == []
    assert read(used(3, token="0x" + "ee" * 20), moved(4, 1_500_000, token="0x" + "ee" * 20)) == []


def test_both_keys_sign_the_digest_that_another_implementation_computes():
    words = transfer_words(TOKEN, PAYEE, 1_500_000, 1_900_000_000, NONCE)
    domain = {"name": "USD Coin", "version": "2", "chainId": 8453, "verifyingContract": TOKEN}
    values = {"from": ESCROW, "to": PAYEE, "value": 1_500_000, "validAfter": 0, "validBefore": 1_900_000_000}
    said = encode_typed_data(domain, AUTHORIZATION_TYPE, values | {"nonce": bytes.fromhex(NONCE[2:])})

    separator = domain_separator("USD Coin", "2", 8453, TOKEN)

    assert separator == said.header
    digest = keccak(b"\x19" + said.version + said.header + said.body)
    assert transfer_digest(separator, ESCROW, words) == digest
