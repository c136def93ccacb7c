"""What stands on the money path instead of a general encoder says the same as one."""

import pytest
from coincurve import PrivateKey
from eth_abi import encode
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_utils.crypto import keccak

from payments.chains.escrow_calls import authorization_digest, pay_call, payment_words
from payments.chains.evm_transactions import Fees, sign_call
from tests.factories import new_address

PAYMENT_ID = "pay_01m7w7cq32s9ezcpf00jhcevrn"
KEY = bytes(range(1, 33))


@pytest.mark.parametrize("units", [0, 1, 10**6, 2**255, 2**256 - 1])
def test_a_call_of_pay_is_what_an_abi_encoder_makes(units):
    token, recipient, signature = new_address(), new_address(), bytes(range(65))
    expected = encode(
        ["bytes32", "address", "address", "uint256", "uint256", "bytes"],
        [PAYMENT_ID.encode().ljust(32, b"\0"), token, recipient, units, 1_800_000_000, signature],
    )
    selector = keccak(text="pay(bytes32,address,address,uint256,uint256,bytes)")[:4]
    assert pay_call(payment_words(PAYMENT_ID, token, recipient, units, 1_800_000_000), signature) == selector + expected


def test_an_authorization_is_the_eip_712_digest_of_the_payment():
    escrow, token, recipient = new_address(), new_address(), new_address()
    names = {"paymentId": "bytes32", "token": "address", "recipient": "address", "amount": "uint256"}
    typed = encode_typed_data(
        {"name": "Allowance Escrow", "version": "1", "chainId": 8453, "verifyingContract": escrow},
        {"Payment": [{"name": name, "type": kind} for name, kind in {**names, "deadline": "uint256"}.items()]},
        {
            "paymentId": PAYMENT_ID.encode().ljust(32, b"\0"),
            "token": token,
            "recipient": recipient,
            "amount": 250_000,
            "deadline": 1_800_000_000,
        },
    )
    words = payment_words(PAYMENT_ID, token, recipient, 250_000, 1_800_000_000)
    assert authorization_digest(8453, escrow, words) == keccak(b"\x19" + typed.version + typed.header + typed.body)


@pytest.mark.parametrize("nonce", [0, 1, 127, 128, 255, 256, 70_000])
@pytest.mark.parametrize("length", [0, 1, 55, 56, 292, 70_000])
def test_a_signed_transaction_is_byte_for_byte_that_of_eth_account(nonce, length):
    to, data, fees = new_address(), b"\x7f" * length, Fees(300_000, 2_000_000_000, 0 if nonce else 1)
    signed = Account.from_key(KEY).sign_transaction(
        {
            "type": 2,
            "chainId": 8453,
            "nonce": nonce,
            "to": bytes.fromhex(to[2:]),
            "value": 0,
            "gas": fees.gas,
            "maxFeePerGas": fees.max_fee_per_gas,
            "maxPriorityFeePerGas": fees.max_priority_fee_per_gas,
            "data": data,
        }
    )
    tx, raw = sign_call(PrivateKey(KEY), chain_id=8453, nonce=nonce, to=bytes.fromhex(to[2:]), data=data, fees=fees)
    assert (tx, raw) == (signed.hash.to_0x_hex(), bytes(signed.raw_transaction))
