"""What stands on the money path instead of a general encoder says the same as one."""

import pytest
from eth_abi import encode
from eth_account import Account
from eth_account.messages import encode_typed_data
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_utils.crypto import keccak
from hexbytes import HexBytes
from web3.exceptions import Web3Exception

from chains.catalogue import Chain, ServedChain, Vm
from chains.evm.adapter import EvmChain
from chains.evm.contract_calls import encode_call
from chains.evm.eip1559 import Fees, read_call, sign_call
from chains.evm.escrow_calls import (
    batch_digest,
    listed_payment_words,
    pay_call,
    pay_many_call,
    payment_digest,
    payment_words,
    status_call,
    statuses_call,
    void_call,
    void_digest,
    void_words,
)
from chains.evm.secp256k1 import SigningKey
from chains.port import Submitter
from tests.support.factories import new_address

ESCROW_ID = "0x" + "a7" * 31 + "0c"
KEY = bytes(range(1, 33))


@pytest.mark.parametrize("units", [0, 1, 10**6, 2**255, 2**256 - 1])
def test_a_call_of_pay_is_what_an_abi_encoder_makes(units):
    token, recipient, signature = new_address(), new_address(), bytes(range(65))
    expected = encode(
        ["bytes32", "address", "address", "uint256", "uint256", "bytes"],
        [bytes.fromhex(ESCROW_ID[2:]), token, recipient, units, 1_800_000_000, signature],
    )
    selector = keccak(text="pay(bytes32,address,address,uint256,uint256,bytes)")[:4]
    assert pay_call(payment_words(ESCROW_ID, token, recipient, units, 1_800_000_000), signature) == selector + expected


def test_an_authorization_is_the_eip_712_digest_of_the_payment():
    escrow, token, recipient = new_address(), new_address(), new_address()
    names = {"paymentId": "bytes32", "token": "address", "recipient": "address", "amount": "uint256"}
    typed = encode_typed_data(
        {"name": "Allowance Escrow", "version": "1", "chainId": 8453, "verifyingContract": escrow},
        {"Payment": [{"name": name, "type": kind} for name, kind in {**names, "deadline": "uint256"}.items()]},
        {
            "paymentId": bytes.fromhex(ESCROW_ID[2:]),
            "token": token,
            "recipient": recipient,
            "amount": 250_000,
            "deadline": 1_800_000_000,
        },
    )
    words = payment_words(ESCROW_ID, token, recipient, 250_000, 1_800_000_000)
    assert payment_digest(8453, escrow, words) == keccak(b"\x19" + typed.version + typed.header + typed.body)


LISTS = pytest.mark.parametrize("length", [0, 1, 2, 64])


def some_payments(length: int) -> list[tuple[bytes, str, str, int]]:
    """Make payments of a list, in the contract's order: id, token, recipient, amount."""
    return [(keccak(text=str(one)), new_address(), new_address(), one**40) for one in range(length)]


def words_of(payments: list[tuple[bytes, str, str, int]]) -> list[bytes]:
    return [listed_payment_words("0x" + one.hex(), token, payee, amount) for one, token, payee, amount in payments]


@LISTS
@pytest.mark.parametrize("signature_bytes", [0, 64, 65])
def test_a_call_of_pay_many_is_what_an_abi_encoder_makes(length, signature_bytes):
    payments, signature = some_payments(length), bytes(range(signature_bytes))
    types = ["(bytes32,address,address,uint256)[]", "uint256", "bytes"]
    expected = encode(types, [payments, 1_800_000_000, signature])
    selector = keccak(text=f"payMany({','.join(types)})")[:4]
    assert pay_many_call(words_of(payments), 1_800_000_000, signature) == selector + expected


@LISTS
def test_an_authorization_of_a_list_is_its_eip_712_digest(length):
    escrow, payments = new_address(), some_payments(length)
    types = {"paymentId": "bytes32", "token": "address", "recipient": "address", "amount": "uint256"}
    typed = encode_typed_data(
        {"name": "Allowance Escrow", "version": "1", "chainId": 8453, "verifyingContract": escrow},
        {
            "Batch": [{"name": "payments", "type": "Payment[]"}, {"name": "deadline", "type": "uint256"}],
            "Payment": [{"name": name, "type": kind} for name, kind in types.items()],
        },
        {"payments": [dict(zip(types, one, strict=True)) for one in payments], "deadline": 1_800_000_000},
    )
    expected = keccak(b"\x19" + typed.version + typed.header + typed.body)
    assert batch_digest(8453, escrow, words_of(payments), 1_800_000_000) == expected


@LISTS
def test_the_question_for_many_statuses_is_what_an_abi_encoder_makes(length):
    ids = [one for one, *_ in some_payments(length)]
    expected = keccak(text="statuses(bytes32[])")[:4] + encode(["bytes32[]"], [ids])
    assert statuses_call(["0x" + one.hex() for one in ids]) == expected


CALLS = {
    "owner()": (),
    "symbol()": (),
    "relayers(address)": (KEY[:20],),
    "setRelayer(address,bool)": (KEY[:20], True),
    "setDailyCap(address,uint256)": (KEY[:20], 5),
    "withdraw(address,address,uint256)": (KEY[:20], KEY[-20:], 2**256 - 1),
    "deposit(string,address,uint256)": ("0x" + "ab" * 20, KEY[:20], 7),
    "approve(address,uint256)": (KEY[:20], 2**256 - 1),
}


@pytest.mark.parametrize(("signature", "arguments"), CALLS.items(), ids=CALLS.keys())
def test_a_call_of_a_tool_is_what_an_abi_encoder_makes(signature, arguments):
    types = [one for one in signature[signature.index("(") + 1 : -1].split(",") if one]
    # In lower case, as no checksum says that it is an address.
    given = ["0x" + one.hex() if isinstance(one, bytes) else one for one in arguments]

    assert encode_call(signature, *given) == keccak(text=signature)[:4] + encode(types, arguments)


@pytest.mark.parametrize("signature", ["setDailyCaps(address,uint256)", "setDailyCap(address,uint128)"])
def test_a_call_that_no_contract_has_is_not_made(signature):
    with pytest.raises(Web3Exception):
        encode_call(signature, "0x" + "ab" * 20, 5)


def test_a_call_of_void_is_what_an_abi_encoder_makes():
    for signature in (b"", bytes(range(64)), bytes(range(65))):
        expected = encode(["bytes32", "bytes"], [bytes.fromhex(ESCROW_ID[2:]), signature])
        assert void_call(void_words(ESCROW_ID), signature) == keccak(text="void(bytes32,bytes)")[:4] + expected


def test_the_authorization_of_a_void_is_its_eip_712_digest():
    escrow = new_address()
    typed = encode_typed_data(
        {"name": "Allowance Escrow", "version": "1", "chainId": 8453, "verifyingContract": escrow},
        {"Void": [{"name": "paymentId", "type": "bytes32"}]},
        {"paymentId": bytes.fromhex(ESCROW_ID[2:])},
    )
    expected = keccak(b"\x19" + typed.version + typed.header + typed.body)
    assert void_digest(8453, escrow, void_words(ESCROW_ID)) == expected


def test_the_question_for_a_status_is_what_an_abi_encoder_makes():
    expected = encode(["bytes32"], [bytes.fromhex(ESCROW_ID[2:])])
    assert status_call(ESCROW_ID) == keccak(text="status(bytes32)")[:4] + expected


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
    tx, raw = sign_call(SigningKey(KEY), chain_id=8453, nonce=nonce, to=bytes.fromhex(to[2:]), data=data, fees=fees)
    assert (tx, raw) == (signed.hash.to_0x_hex(), bytes(signed.raw_transaction))


@pytest.mark.parametrize("fees", [Fees(300_000, 2_000_000_000, 1_000_000), Fees(21_000, 1, 0), Fees(1, 2**64, 2**63)])
@pytest.mark.parametrize("data", [b"", b"\0", b"\x7f" * 292])
def test_what_eth_account_signed_is_read_back(fees, data):
    to = bytes.fromhex(new_address()[2:])
    signed = Account.from_key(KEY).sign_transaction(
        {
            "type": 2,
            "chainId": 8453,
            "nonce": 300,
            "to": to,
            "value": 0,
            "gas": fees.gas,
            "maxFeePerGas": fees.max_fee_per_gas,
            "maxPriorityFeePerGas": fees.max_priority_fee_per_gas,
            "data": data,
        }
    )

    assert read_call(bytes(signed.raw_transaction)) == (to, data, fees)


# --- A higher fee -----------------------------------------------------------------------------------------------------
GWEI = 10**9


def raise_fee(old: tuple[int, int], now: tuple[int, int] = (0, 0), most_gwei: int = 1_000) -> Fees | None:
    """Raise what was signed with one (fee, tip) where the chain asks for another."""
    chain = EvmChain.of(ServedChain(Chain("eip155:8453", ("test",), Vm.EVM), (), new_address(), {}), KEY * 2, most_gwei)
    submitter = Submitter(3, chain.preparer.relayer_address(3), 70_000)
    signed = chain.nonces.prepare_filler(submitter, {"maxFeePerGas": old[0], "maxPriorityFeePerGas": old[1]})
    raised = chain.nonces.raise_fee(signed.raw, submitter, {"maxFeePerGas": now[0], "maxPriorityFeePerGas": now[1]})
    if raised is None:
        return None
    assert raised.tx != signed.tx
    assert raised.valid_until is None
    assert Account.recover_transaction(raised.raw) == submitter.relayer_address
    assert decoded(raised.raw) == decoded(signed.raw)
    return read_call(raised.raw)[2]


def decoded(raw: bytes) -> dict:
    """Read all of a transaction but its fees and its signature."""
    fields = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
    return {name: value for name, value in fields.items() if "Fee" not in name and name not in ("v", "r", "s")}


@pytest.mark.parametrize("old", [1, 7, 8, 9, 10**9, 10**9 + 1, 123_456_789_012])
def test_a_raised_fee_is_an_eighth_higher_rounded_up(old):
    # So much is tipped already that nothing else raises it.
    was = 5 * GWEI + old
    fees = raise_fee((was, was))

    assert fees is not None
    for fee in (fees.max_fee_per_gas, fees.max_priority_fee_per_gas):
        assert fee * 8 >= was * 9
        assert (fee - 1) * 8 < was * 9


def test_a_tip_of_nothing_is_raised_too():
    assert raise_fee((80, 0)) == Fees(300_000, 90, 1)


@pytest.mark.parametrize(
    ("now", "expected"),
    [((200, 40), (200, 40)), ((200, 20), (212, 32)), ((200, 1), (231, 32)), ((41, 40), (90, 40)), ((2, 1), (90, 32))],
)
def test_a_raised_fee_is_what_the_chain_asks_for_now_with_four_times_the_tip_or_more(now, expected):
    fees = raise_fee((80, 8), now)

    assert fees is not None
    assert (fees.max_fee_per_gas, fees.max_priority_fee_per_gas) == expected


def test_a_fee_is_raised_up_to_the_highest_and_not_above():
    assert raise_fee((8 * GWEI, GWEI), most_gwei=9) == Fees(300_000, 9 * GWEI, 4 * GWEI)
    assert raise_fee((8 * GWEI + 1, GWEI), most_gwei=9) is None
    assert raise_fee((8 * GWEI, GWEI), now=(9 * GWEI + 1, GWEI), most_gwei=9) == Fees(300_000, 9 * GWEI, 4 * GWEI)
