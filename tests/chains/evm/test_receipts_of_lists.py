"""What a receipt says of a transaction with several orders: which were paid, why others were not, what each cost. Pure.

All of a receipt that does not come from the escrow or the token may have been written by anybody.
"""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_utils.crypto import keccak

from chains.evm.answers import SKIPPED, find_unpaid, read_receipt
from chains.evm.costs import _read_cost
from chains.evm.eip1559 import Fees, sign_call
from chains.evm.escrow_calls import listed_words, pay_many_call
from chains.evm.queries import listed_ids
from chains.evm.secp256k1 import SigningKey
from chains.port import AuthorizedBy, GasCost, Order, Submitter, TransactionQuery
from tests.support.fake_nodes import ESCROW, TOKEN, hash_of, made, order_of, paid, receipt, transfer, word
from tests.support.lying_evm_nodes import FINAL, TX, finality

OTHER = "0x" + "99" * 20
# Two that differ in nothing but their ids, and one that differs in all.
FIRST, TWIN, THIRD = order_of(hash_of(1)), order_of(hash_of(2)), order_of(hash_of(3), "2.5")
LIST = [FIRST, TWIN, THIRD]
UNEXPLAINED = "The transaction succeeded without paying 1 USDC to " + FIRST.recipient + "."


def skipped(order: Order, why: str = "escrow: already settled", **changes: Any) -> dict[str, Any]:
    topics, data = [SKIPPED, order.escrow_id], "0x" + encode(["string"], [why]).hex()
    return {"address": ESCROW, "topics": topics, "data": data, **changes}


def unpaid(logs: Sequence[Any], orders: Sequence[Order] = LIST) -> dict[str, str]:
    found = read_receipt(TX)(receipt(TX, logs))
    assert found
    return find_unpaid(found, orders, {order.escrow_id: TOKEN for order in orders}, ESCROW)


# --- Which were paid --------------------------------------------------------------------------------------------------
def test_of_a_list_that_was_paid_nothing_is_unpaid():
    assert unpaid([*made(FIRST), *made(TWIN), *made(THIRD)]) == {}
    # A list has the token's event before the escrow's, and any contract may say something in between.
    assert unpaid([transfer(THIRD), transfer(TWIN), paid(THIRD), paid(TWIN), transfer(FIRST), paid(FIRST)]) == {}


@pytest.mark.parametrize(("one", "other"), [(FIRST, TWIN), (TWIN, FIRST)], ids=["the first", "the second"])
@pytest.mark.parametrize("order", [1, -1], ids=["in their order", "turned around"])
def test_of_two_that_are_alike_the_one_that_was_skipped_is_unpaid_and_says_why(one, other, order):
    logs = [*made(other), skipped(one), *made(THIRD)]

    assert unpaid(logs[::order], LIST[::order]) == {one.escrow_id: "escrow: already settled"}


def test_one_transfer_is_not_two_payments():
    """However often the escrow says so: it is the token that moves the money."""
    assert unpaid([paid(FIRST), paid(TWIN), transfer(FIRST), *made(THIRD)]) == {TWIN.escrow_id: UNEXPLAINED}
    assert unpaid([paid(FIRST), paid(TWIN), paid(TWIN), *made(THIRD)]) == dict.fromkeys(
        [FIRST.escrow_id, TWIN.escrow_id], UNEXPLAINED
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"address": ESCROW},
        {"data": word(2_499_999)},
        {"data": "0x"},
        {"topics": [*transfer(THIRD)["topics"][:2], word(OTHER)]},
        {"topics": [transfer(THIRD)["topics"][0], word(OTHER), word(THIRD.recipient)]},
    ],
    ids=["of another token", "of less", "of nothing", "to another", "from another"],
)
def test_the_escrows_word_without_the_tokens_pays_nothing(changes):
    logs = [paid(THIRD), transfer(THIRD, **changes), *made(FIRST), *made(TWIN)]

    assert unpaid(logs) == {THIRD.escrow_id: UNEXPLAINED.replace("1 USDC", "2.5 USDC")}


def test_another_contract_neither_pays_nor_says_why_not():
    logs = [paid(FIRST, address=OTHER), transfer(FIRST), *made(TWIN), *made(THIRD)]

    assert unpaid(logs) == {FIRST.escrow_id: UNEXPLAINED}
    assert unpaid([*logs, skipped(FIRST, "pay us by hand", address=OTHER)]) == {FIRST.escrow_id: UNEXPLAINED}
    assert unpaid([*logs, skipped(FIRST), skipped(FIRST, "no", address=TOKEN)]) == {
        FIRST.escrow_id: "escrow: already settled"
    }
    # Nor does it take away what was paid.
    assert unpaid([*made(FIRST), *made(TWIN), *made(THIRD), skipped(FIRST, address=OTHER)]) == {}


@pytest.mark.parametrize(
    "data", ["0x", word(2**255), word(32) + word(2**255)[2:]], ids=["nothing", "somewhere else", "too long"]
)
def test_what_another_contract_says_in_another_form_hides_no_receipt(data):
    """A payee takes an authorized payment by a transaction of its own, in which it may say anything in any form."""
    logs = [*made(FIRST), skipped(FIRST, address=OTHER, data=data), {"address": OTHER, "topics": [], "data": "0x"}]

    assert unpaid(logs, [FIRST]) == {}


def test_why_not_is_one_line_that_a_database_takes():
    """A token may choose the words of an escrow of a later release."""
    why = "escrow:\n\0token\x1b[31m refused\u2028" + "!" * 1_000

    (said,) = unpaid([skipped(FIRST, why), *made(TWIN), *made(THIRD)]).values()

    assert said.startswith("escrow:token[31m refused!")
    assert (len(said), said.isprintable()) == (500, True)
    data = "0x" + encode(["bytes"], [b"\xff\xfeno text"]).hex()
    assert unpaid([skipped(FIRST, data=data)], [FIRST]) == {FIRST.escrow_id: "\ufffd\ufffdno text"}


def test_an_authorization_needs_the_tokens_word_alone():
    taken = replace(FIRST, authorized_by=AuthorizedBy(ESCROW, TOKEN))

    assert unpaid([transfer(FIRST)], [taken]) == {}
    assert unpaid([paid(FIRST)], [taken]) == {FIRST.escrow_id: UNEXPLAINED}


# --- What each cost ---------------------------------------------------------------------------------------------------
GAS_USED = "0x" + keccak(text="GasUsed(uint256[])").hex()
GAS, PRICE_WEI = 180_001, 7
TAKEN = [70_001, 29_999, 40_000]
# What is of none of them, and a wei for each unit that cannot be shared out evenly.
COMMON = GAS - sum(TAKEN)


def listing(*orders: Order) -> TransactionQuery:
    """Look for a transaction that pays a list."""
    words = [listed_words(one.escrow_id, TOKEN, one.recipient, 1) for one in orders]
    call = pay_many_call(words, 1_800_000_000, bytes(65))
    escrow = bytes.fromhex(ESCROW[2:])
    _, raw = sign_call(SigningKey(b"\1" * 32), chain_id=1, nonce=0, to=escrow, data=call, fees=Fees(1, 1, 1))
    return TransactionQuery(TX, raw, Submitter(0, "0xrelayer", 0), orders, 5, hash_of(5))


def gas_used(*taken: int, **changes: Any) -> dict[str, Any]:
    """Say as the escrow how much gas each payment of a list took: 32 bits each, eight to a word."""
    words = [
        sum(gas << 32 * place for place, gas in enumerate(taken[start : start + 8]))
        for start in range(0, len(taken), 8)
    ]
    log = {"address": ESCROW, "topics": [GAS_USED], "data": "0x" + encode(["uint256[]"], [words]).hex()}
    return {**log, **changes}


def cost(query: TransactionQuery, events: Sequence[Any], gas: int = GAS, **changes: Any) -> GasCost | None:
    said = {**receipt(TX, events), "gasUsed": hex(gas), "effectiveGasPrice": hex(PRICE_WEI), **changes}
    bill = _read_cost(query, "0x1", said, finality())
    return None if bill is None else bill.share(listed_ids(query.raw))


def coins(wei: int) -> Decimal:
    return Decimal(wei).scaleb(-18)


WHOLE = GasCost(coins(GAS * PRICE_WEI))


def test_each_order_has_what_it_took_and_an_equal_part_of_the_rest():
    found = cost(listing(*LIST), [*made(FIRST), gas_used(*TAKEN)])

    assert found
    assert found.total == WHOLE.total == sum(found.of_orders.values())
    assert list(found.of_orders) == [order.escrow_id for order in LIST]
    for order, taken in zip(LIST, TAKEN, strict=True):
        fair = Decimal(taken * PRICE_WEI) + Decimal(COMMON * PRICE_WEI) / len(LIST)
        assert abs(found.of_orders[order.escrow_id].scaleb(18) - fair) < len(LIST)


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 64])
@pytest.mark.parametrize("l1_fee", [0, 10**15 + 1])
def test_the_shares_of_any_list_add_up_to_the_total(count, l1_fee):
    orders = [order_of(hash_of(number)) for number in range(1, count + 1)]
    taken = [30_000 + 7 * number**3 for number in range(count)]
    gas = sum(taken) + 61_003

    found = cost(listing(*orders), [gas_used(*taken)], gas, l1Fee=hex(l1_fee))

    assert found
    assert found.total == coins(gas * PRICE_WEI + l1_fee)
    assert sum(found.of_orders.values()) == found.total
    assert found.of_orders.keys() == {order.escrow_id for order in orders}
    shares = list(found.of_orders.values())
    # All but the first, which has the remainder, too, in the order of what they took.
    assert shares[1:] == sorted(shares[1:])


@pytest.mark.parametrize("taken", [[0, 0, 0], [2**32 - 1] * 3], ids=["nothing", "more than all"])
def test_gas_that_cannot_be_is_shared_out_all_the_same(taken):
    found = cost(listing(*LIST), [gas_used(*taken)])

    assert found
    assert sum(found.of_orders.values()) == found.total == WHOLE.total
    assert min(found.of_orders.values()) > 0


def test_what_another_contract_says_of_gas_is_ignored():
    lie = gas_used(1, 1, 10**6, address=OTHER)

    assert cost(listing(*LIST), [lie]) == WHOLE
    assert cost(listing(*LIST), [lie, gas_used(*TAKEN), lie]) == cost(listing(*LIST), [gas_used(*TAKEN)])
    assert cost(listing(*LIST), [gas_used(*TAKEN, topics=[hash_of(9)])]) == WHOLE


def test_of_a_transaction_without_a_list_the_cost_is_whole():
    single = replace(listing(FIRST), raw=b"")

    assert cost(single, [gas_used(*TAKEN)]) == WHOLE
    assert cost(listing(*LIST), []) == WHOLE


@pytest.mark.parametrize(
    "log",
    [
        gas_used(),
        gas_used(data="0x"),
        gas_used(data=word(2**255)),
        gas_used(data="0xno"),
        gas_used(topics=None),
        gas_used(topics=[1]),
        gas_used(data=None),
    ],
    ids=["of too few", "of nothing", "somewhere else", "no hex", "no topics", "no text", "no data"],
)
def test_a_node_whose_logs_cannot_be_read_tells_no_shares(log):
    assert cost(listing(*LIST), [log]) in (None, WHOLE)


def test_an_event_without_a_topic_hides_no_cost():
    """As any contract can emit one."""
    anonymous = {"address": OTHER, "topics": [], "data": "0x"}

    assert cost(listing(*LIST), [anonymous, gas_used(*TAKEN)]) == cost(listing(*LIST), [gas_used(*TAKEN)])


def test_a_receipt_without_logs_or_of_a_block_that_is_not_final_tells_no_cost():
    assert cost(listing(*LIST), [gas_used(*TAKEN)], logs=None) is None
    assert cost(listing(*LIST), [gas_used(*TAKEN)], blockNumber=hex(FINAL + 1)) is None
    assert cost(listing(*LIST), [gas_used(*TAKEN)], transactionHash=hash_of(9)) is None
