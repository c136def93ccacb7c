"""What nodes say of several orders at once: a lie about one of them is no lie about the others.

An escrow of an earlier release knows no lists. And how many payments one makes at once, no node says alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from chains.evm.adapter import EvmChain
from chains.evm.eip1559 import Fees, sign_call
from chains.evm.secp256k1 import SigningKey
from chains.port import Contradiction, Fate, NonceFate, PaymentFate, TransactionQuery
from tests.support.evm_escrow import call
from tests.support.fake_nodes import (
    ESCROW,
    NOT_THERE,
    Node,
    Truth,
    adapter,
    asks_for_list,
    hash_of,
    of_each,
    of_ids,
    order_of,
    tell,
    word,
)
from tests.support.fates import PAID, UNKNOWN, lone
from tests.support.lying_evm_nodes import TX, finality, sought

REVERTED = {"code": 3, "message": "execution reverted"}
MADE, NOT_MADE, NOT_SIGNED = (order_of(hash_of(number)) for number in (1, 2, 3))
LIST = [MADE, NOT_MADE]
UNMADE = (PaymentFate.UNPAID, NonceFate.UNUSED)


def prove(chain: EvmChain, query: TransactionQuery) -> Fate:
    return chain.prover.find_fates([query], finality())[TX]


def fates(made: PaymentFate, not_made: PaymentFate) -> Mapping[str, PaymentFate]:
    return {MADE.escrow_id: made, NOT_MADE.escrow_id: not_made}


def of_paid(*ids: str) -> Any:
    """Answer as an escrow that has paid these ids."""
    return of_ids(lambda escrow_id: int(escrow_id in ids))


def of_earlier_release(answer: Any, refusal: Any = REVERTED) -> Any:
    """Answer as an escrow that tells of one id at a time."""
    return lambda wanted, block: refusal if asks_for_list(wanted) else answer(wanted, block)


def listed(*values: int) -> str:
    return "0x" + "".join(word(one)[2:] for one in (32, len(values), *values))


def say(nodes: Sequence[Node], truth: Truth, liar: int, lie: Any, honest: Any) -> EvmChain:
    for index, node in enumerate(nodes):
        node.answers = truth.answers(eth_call=lie if index == liar else honest)
    return adapter(*nodes)


# --- Several orders ---------------------------------------------------------------------------------------------------
def test_of_several_orders_each_has_its_own_fate(nodes, truth):
    for node in nodes:
        node.answers = truth.answers(eth_call=of_paid(MADE.escrow_id))
    said = prove(adapter(*nodes), replace(sought(truth), orders=LIST))

    assert said.payments == fates(PaymentFate.PAID, PaymentFate.UNPAID)
    assert [node.asked.count("eth_call") for node in nodes] == [1, 1, 1]


P, U, UNTOLD = PaymentFate.PAID, PaymentFate.UNPAID, PaymentFate.UNKNOWN


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        # By three nodes, then by two. That it was paid, two of three may say. That it was not, all must.
        (of_paid(), [(P, U), (UNTOLD, U)]),
        (of_paid(MADE.escrow_id, NOT_MADE.escrow_id), [(P, UNTOLD), (P, UNTOLD)]),
        (of_paid(NOT_MADE.escrow_id), [(P, UNTOLD), (UNTOLD, UNTOLD)]),
        (of_ids(lambda one: 2 if one == NOT_MADE.escrow_id else 1), [(P, UNTOLD), (P, UNTOLD)]),
    ],
    ids=["none was paid", "both were paid", "the other one was paid", "one is void"],
)
def test_a_lie_about_one_order_of_a_list_says_nothing_of_the_other(nodes, truth, liar, lie, said):
    query = replace(sought(truth), orders=LIST)
    for count, by_them in zip((3, 2), said, strict=True):
        chain = say(nodes[:count], truth, liar, lie, of_paid(MADE.escrow_id))
        assert prove(chain, query).payments == fates(*by_them)
        # Who of two is right, nobody knows.
        named = [Contradiction(liar + 1, "what the escrow has paid")] if count > 2 else []
        assert chain.inspector.take_contradictions() == named


def test_more_orders_than_one_call_asks_for_are_asked_for_in_parts(nodes, truth):
    orders = [order_of(hash_of(number)) for number in range(1, 1_201)]
    paid = {order.escrow_id for order in orders[::3]}
    nodes[0].answers = truth.answers(eth_call=of_paid(*paid))
    queries = [
        replace(sought(truth), tx=hash_of(start), orders=orders[start : start + 64]) for start in range(0, 1_200, 64)
    ]

    found = adapter(nodes[0]).prover.find_fates(queries, finality())

    said = {escrow_id: fate for one in found.values() for escrow_id, fate in one.payments.items()}
    assert {escrow_id for escrow_id, fate in said.items() if fate is PaymentFate.PAID} == paid
    assert {fate for escrow_id, fate in said.items() if escrow_id not in paid} == {PaymentFate.UNPAID}
    assert len(said) == 1_200
    assert nodes[0].asked.count("eth_call") == 3


def test_one_id_that_two_escrows_know_has_a_fate_at_each(nodes, truth):
    """An order that was signed again after the keys were replaced: only the earlier escrow has paid it."""
    other = "0x" + "77" * 20
    raw = sign_call(
        SigningKey(b"\1" * 32), chain_id=1, nonce=0, to=bytes.fromhex(other[2:]), data=b"", fees=Fees(1, 1, 1)
    )[1]
    nodes[0].answers = truth.answers(
        eth_call=lambda wanted, block: of_each(int(wanted["to"].lower() == ESCROW))(wanted, block)
    )
    paid, not_paid = sought(truth), replace(sought(truth), tx=hash_of(9), raw=raw)

    for queries in ([paid, not_paid], [not_paid, paid]):
        found = adapter(nodes[0]).prover.find_fates(queries, finality())
        assert [lone(found[one.tx])[0] for one in (paid, not_paid)] == [PaymentFate.PAID, PaymentFate.UNPAID]


# --- Escrows without lists --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("refusal", [REVERTED, "0x"], ids=["reverts", "returns nothing"])
@pytest.mark.parametrize("is_paid", [True, False])
def test_what_an_escrow_of_an_earlier_release_has_paid_is_proven_one_by_one(nodes, truth, is_paid, refusal):
    truth.is_paid = is_paid
    for node in nodes:
        node.answers = truth.answers(eth_call=of_earlier_release(of_each(int(is_paid)), refusal))

    assert lone(prove(adapter(*nodes), sought(truth))) == (PAID if is_paid else UNMADE)


def test_of_several_orders_an_escrow_of_an_earlier_release_tells_one_by_one_and_is_not_asked_for_lists_again(
    nodes, truth
):
    for node in nodes:
        node.answers = truth.answers(eth_call=of_earlier_release(of_paid(MADE.escrow_id)))
    chain, query = adapter(*nodes), replace(sought(truth), orders=LIST)

    for asked in (3, 5):
        assert prove(chain, query).payments == fates(PaymentFate.PAID, PaymentFate.UNPAID)
        assert [node.asked.count("eth_call") for node in nodes] == [asked] * 3


def test_about_an_order_of_an_escrow_of_an_earlier_release_a_node_alone_lies_in_vain(nodes, truth, liar):
    lie, honest = of_paid(NOT_MADE.escrow_id), of_paid(MADE.escrow_id)
    chain = say(nodes, truth, liar, of_earlier_release(lie), of_earlier_release(honest))

    query = replace(sought(truth), orders=[*LIST, NOT_SIGNED])
    assert prove(chain, query).payments == {
        **fates(PaymentFate.PAID, PaymentFate.UNKNOWN), NOT_SIGNED.escrow_id: PaymentFate.UNPAID,
    }  # fmt: skip


GARBLED: dict[str, Any] = {
    "refuses it": REVERTED,
    "returns nothing": "0x",
    "is behind": NOT_THERE,
    "says null": None,
    "says a word": word(1),
    "says more": listed(0, 0, 0),
    "says none": listed(),
    "says where it is not": word(2**255),
    "says that there are more than it says": "0x" + word(32)[2:] + word(2**64)[2:] + word(1)[2:],
    "says no hex": "0xno",
}


@pytest.mark.parametrize("answer", GARBLED.values(), ids=GARBLED)
def test_one_that_says_nothing_readable_of_a_list_changes_nothing_while_the_others_do(nodes, truth, liar, answer):
    honest = of_paid(MADE.escrow_id)
    chain, query = say(nodes, truth, liar, lambda *_: answer, honest), replace(sought(truth), orders=LIST)

    assert prove(chain, query).payments == fates(PaymentFate.PAID, PaymentFate.UNPAID)
    assert chain.inspector.take_contradictions() == []
    # Nor is anything concluded from the only other one.
    assert set(prove(adapter(*nodes[:2]), query).payments.values()) == {PaymentFate.UNKNOWN}
    # And nobody is asked one by one because of it.
    assert [node.asked.count("eth_call") for node in nodes if node is not nodes[liar]] in ([1, 2], [2, 1])


def test_a_list_that_is_too_short_says_nothing_of_any_of_its_orders(nodes, truth, liar):
    lie, query = listed(1), replace(sought(truth), orders=[NOT_SIGNED, NOT_MADE])
    chain = say(nodes, truth, liar, lambda *_: lie, of_paid())

    assert set(prove(chain, query).payments.values()) == {PaymentFate.UNPAID}


def test_what_nobody_says_anything_readable_of_is_unknown(nodes, truth):
    for node, answer in zip(nodes, (word(1), NOT_THERE, None), strict=True):
        node.answers = truth.answers(eth_call=answer, eth_getTransactionCount=NOT_THERE)

    assert lone(prove(adapter(*nodes), sought(truth))) == UNKNOWN


# --- How many an escrow pays at once ----------------------------------------------------------------------------------
TOGETHER = call("MOST_TOGETHER()")


def paying(most: Any) -> dict[str, Any]:
    """Answer as the nodes of an escrow that says so when it is asked how many payments it makes at once."""
    return {"eth_getCode": "0x60", "eth_call": lambda wanted, _: most if wanted["data"] == TOGETHER else word(6)}


@pytest.mark.parametrize(
    "lie", [word(0), word(1), word(2**255), REVERTED, "0x"], ids=["0", "1", "many", "reverts", "nothing"]
)
def test_how_many_payments_an_escrow_makes_at_once_is_what_nodes_agree_on_and_one_if_they_do_not(
    nodes, truth, liar, lie
):
    for index, node in enumerate(nodes):
        node.answers = truth.answers(**paying(lie if index == liar else word(64)))

    assert adapter(*nodes).observer.observe()["mostTogether"] == 64
    assert adapter(*nodes[:2]).observer.observe()["mostTogether"] == 1


@pytest.mark.parametrize("answer", [REVERTED, "0x", word(0)], ids=["reverts", "returns nothing", "none"])
def test_an_escrow_that_does_not_say_how_many_payments_it_makes_at_once_makes_one(nodes, truth, answer):
    assert tell(nodes[:1], truth, 0, **paying(answer)).observer.observe()["mostTogether"] == 1


def test_what_an_earlier_release_saw_without_how_many_an_escrow_pays_at_once_is_seen_anew(nodes, truth):
    chain = tell(nodes[:1], truth, 0, **paying(word(64)))
    known: dict[str, Any] = {"configuration": chain.preparer.configuration, "tokens": {"USDC": {"objection": "Known."}}}

    assert chain.observer.observe(known, checks_tokens=False)["mostTogether"] == 64
    kept = chain.observer.observe(known | {"mostTogether": 7}, checks_tokens=False)
    assert (kept["mostTogether"], kept["tokens"]) == (7, known["tokens"])
