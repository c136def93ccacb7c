"""A node that lies or lags beside an honest one settles nothing, fails nothing and credits nothing."""

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from coincurve import PrivateKey

from allowance.environment.keys import held_key
from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from chains.evm.adapter import EvmChain
from chains.evm.eip1559 import Fees, sign_call
from chains.evm.events import VOIDED
from chains.port import (
    NOTHING_PROVEN,
    ChainUnavailable,
    Finality,
    Inclusion,
    NonceProof,
    Order,
    PaymentProof,
    Proof,
    Submitter,
    TransactionQuery,
)
from payments.lifecycle import SettlementState
from payments.models import Payment, Settlement
from payments.settling.broadcasting import broadcast
from payments.settling.confirming import confirm
from payments.settling.unpaid import resolve_unpaid
from tests.support.chains import make_fake_chain, make_service_on, pay_on
from tests.support.deposits import none_of_ours
from tests.support.factories import make_agent
from tests.support.fake_nodes import (
    ESCROW,
    NOT_THERE,
    TOKEN,
    Node,
    Truth,
    adapter,
    block,
    deposit,
    fee_history,
    hash_of,
    order_of,
    receipt,
    tell,
    transfer,
    word,
)
from tests.support.scenes import Scene, state_of, status_of, transaction_of

TX = "0x" + "ab" * 32
FINAL = 10
RAW = sign_call(
    PrivateKey(b"\1" * 32), chain_id=1, nonce=0, to=bytes.fromhex(ESCROW[2:]), data=b"", fees=Fees(1, 1, 1)
)[1]
UNKNOWN = NOTHING_PROVEN


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    made = [Node(), Node(), Node()]
    yield made
    for node in made:
        node.close()


@pytest.fixture
def truth() -> Truth:
    return Truth(TX, order_of(), time.time())


@pytest.fixture(params=[0, 1], ids=["the first lies", "the second lies"])
def liar(request) -> int:
    return int(request.param)


def finality() -> Finality:
    return Finality(FINAL, utc_now(), newest=FINAL + 2)


def sought(truth: Truth, block_number: int | None = None) -> TransactionQuery:
    return TransactionQuery(
        truth.tx, RAW, Submitter(0, "0xrelayer", 0), truth.order, block_number, hash_of(block_number or 0)
    )


# --- Finality ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("head", "age_s"), [(10**6, 0), (10**6, 10**6), (3, 10**6)], ids=["ahead", "ahead and stale", "stale"]
)
def test_a_node_alone_does_not_say_what_is_final(nodes, truth, liar, head, age_s):
    def lie(number: str, *_: Any) -> Any:
        return block(head, truth.time - age_s) if number == "latest" else truth.block(number)

    assert tell(nodes, truth, liar, eth_getBlockByNumber=lie).find_finality().block_number == FINAL


def test_a_node_that_is_a_little_behind_delays_finality(nodes, truth, liar):
    def behind(number: str, *_: Any) -> Any:
        return block(9, truth.time - 3) if number == "latest" else truth.block(number)

    assert tell(nodes[:2], truth, liar, eth_getBlockByNumber=behind).find_finality().block_number == 7
    assert tell(nodes, truth, liar, eth_getBlockByNumber=behind).find_finality().block_number == FINAL


def test_one_of_several_nodes_alone_makes_nothing_final(nodes, truth):
    chain = tell(nodes[:2], truth, 0)
    nodes[1].respond = lambda _: (503, b"")

    assert chain.find_finality().block_number == 0
    with pytest.raises(ChainUnavailable):
        chain.search_escrow(1, FINAL, none_of_ours)
    with pytest.raises(ChainUnavailable):
        chain.find_holdings(FINAL)
    assert chain.find_proofs([sought(truth)], finality()) == {TX: UNKNOWN}


@pytest.mark.parametrize("lie", [{"timestamp": "0x0"}, {"hash": hash_of(99)}], ids=["time", "hash"])
def test_nothing_is_final_while_nodes_contradict_each_other_about_the_block(nodes, truth, liar, lie):
    def other(number: str, *_: Any) -> Any:
        return truth.block(number) | (lie if number == hex(FINAL) else {})

    with pytest.raises(ChainUnavailable):
        tell(nodes, truth, liar, eth_getBlockByNumber=other).find_finality()


@pytest.mark.parametrize(
    "answer",
    [None, NOT_THERE, {}, block(5, 2**80), {"number": "5", "hash": hash_of(5), "timestamp": "0x5"}],
    ids=["null", "error", "empty", "a time that no calendar has", "no quantity"],
)
def test_a_chain_without_a_block_that_can_be_read_is_away(nodes, answer):
    nodes[0].answers = {"eth_getBlockByNumber": answer, "eth_feeHistory": fee_history("0x4", "0x5")}

    with pytest.raises(ChainUnavailable):
        adapter(nodes[0]).find_finality()
    with pytest.raises(ChainUnavailable):
        adapter(nodes[0]).observe()


# --- Proofs -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("is_paid", [True, False])
def test_a_proof_is_what_all_nodes_say_that_can_tell(nodes, truth, liar, is_paid):
    truth.is_paid = is_paid
    proof = Proof(PaymentProof.PAID, NonceProof.USED) if is_paid else Proof(PaymentProof.UNPAID, NonceProof.UNUSED)

    honest = tell(nodes, truth, liar)
    assert honest.find_proofs([sought(truth)], finality()) == {TX: proof}
    lagging = tell(nodes, truth, liar, eth_call=NOT_THERE, eth_getTransactionCount=NOT_THERE)
    assert lagging.find_proofs([sought(truth)], finality()) == {TX: proof}
    assert adapter(nodes[liar]).find_proofs([sought(truth)], finality()) == {TX: UNKNOWN}
    lying = tell(nodes, truth, liar, eth_call=word(not is_paid), eth_getTransactionCount=hex(not is_paid))
    assert lying.find_proofs([sought(truth)], finality()) == {TX: UNKNOWN}


@pytest.mark.parametrize("answer", ["0x", None, word(2), "1", {}], ids=["nothing", "null", "two", "no hex", "object"])
def test_a_word_that_is_neither_yes_nor_no_proves_nothing(nodes, truth, answer):
    nodes[0].answers = truth.answers(eth_call=lambda *_: answer)

    assert adapter(nodes[0]).find_proofs([sought(truth)], finality())[TX].payment is PaymentProof.UNKNOWN


@pytest.mark.parametrize("has_nonces", [True, False])
@pytest.mark.parametrize("is_proven", [True, False])
def test_what_a_node_has_in_a_block_for_ever_ends_by_proof_alone(db, monkeypatch, has_nonces, is_proven):
    scene = Scene(has_nonces=has_nonces)
    payment = scene.pay_and_send()
    scene.chain.include(transaction_of(payment), is_final=False)
    scene.confirm()
    assert state_of(payment) == SettlementState.INCLUDED
    Payment.objects.filter(pk=payment.pk).update(created_at=utc_now() - timedelta(days=1))
    scene.chain.blocks[transaction_of(payment).tx] = Inclusion(10**6, "elsewhere", is_final=False, failure=None)
    proof = Proof(PaymentProof.UNPAID, NonceProof.UNUSED) if is_proven else UNKNOWN
    monkeypatch.setattr(scene.chain, "find_proofs", lambda sought, _: {one.tx: proof for one in sought})
    deadline = transaction_of(payment).valid_until
    if deadline is not None:
        scene.chain.reach(deadline + timedelta(seconds=1))
    else:
        scene.chain.finalise(10**4)

    scene.confirm()

    assert (state_of(payment), status_of(payment)) == (("expired", "failed") if is_proven else ("included", "approved"))


# --- Inclusions -------------------------------------------------------------------------------------------------------
def look(node: Node, truth: Truth, block_number: int | None = None) -> Any:
    return adapter(node).find_inclusions([sought(truth, block_number)], finality()).inclusions.get(TX)


def test_a_transaction_in_a_block_that_is_not_on_the_chain_is_not_final(nodes, truth):
    truth.is_paid = True
    elsewhere = receipt(TX, [transfer(truth.order)]) | {"blockHash": hash_of(99)}
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=elsewhere)
    assert not look(nodes[0], truth).is_final

    nodes[0].answers = truth.answers()
    assert (look(nodes[0], truth).is_final, look(nodes[0], truth).failure) == (True, None)


def test_a_receipt_from_a_block_that_there_is_not_yet_is_no_receipt(nodes, truth):
    far = receipt(TX, [transfer(truth.order)], number=10**12)
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=far, eth_getTransactionCount="0x1")
    chain = adapter(nodes[0])

    assert not chain.find_inclusions([sought(truth)], finality()).inclusions


@pytest.mark.parametrize(
    "changes",
    [{"transactionHash": hash_of(7)}, {"status": "0x2"}, {"status": None}, {"blockNumber": "0x" + "f" * 30}],
    ids=["another one's", "no status", "null", "a number that no chain has"],
)
def test_a_receipt_that_cannot_be_read_is_no_receipt(nodes, truth, changes):
    truth.is_paid = True
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=receipt(TX, []) | changes)

    with pytest.raises(ChainUnavailable):
        look(nodes[0], truth)


ORDER = order_of()


@pytest.mark.parametrize(
    "logs",
    [
        [],
        [transfer(ORDER, address=ESCROW)],
        [transfer(ORDER, topics=[transfer(ORDER)["topics"][0], word(ORDER.recipient), word(ORDER.recipient)])],
        [transfer(ORDER, topics=[transfer(ORDER)["topics"][0], word(ESCROW), word(TOKEN)])],
        [transfer(ORDER, topics=transfer(ORDER)["topics"][:2])],
        [transfer(ORDER, data=word(10**6 - 1))],
        [transfer(ORDER, data="0x")],
    ],
    ids=["no log", "another token", "another payer", "another payee", "another event", "less", "no amount"],
)
def test_a_success_without_the_tokens_own_word_is_not_a_payment(nodes, truth, logs):
    truth.is_paid = True
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=receipt(TX, logs))

    assert look(nodes[0], truth).failure.startswith("The transaction succeeded without paying")


def test_a_payment_is_found_among_other_logs_and_in_any_case_of_hex(nodes, truth):
    truth.is_paid = True
    shouted = transfer(ORDER, topics=["0x" + one[2:].upper() for one in transfer(ORDER)["topics"]])
    logs = [transfer(ORDER, address=ESCROW), transfer(ORDER, data="0x"), shouted]
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=receipt(TX, logs))

    assert look(nodes[0], truth).failure is None


def test_a_revert_whose_reason_nobody_remembers_is_still_a_revert(nodes, truth):
    truth.is_paid = True
    nodes[0].answers = truth.answers(eth_getTransactionReceipt=receipt(TX, [], is_success=False))

    assert look(nodes[0], truth).failure == "Reverted."


# --- Deposits ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "logs",
    [[], [deposit(4)], [deposit(4), deposit(6), deposit(7)], [deposit(4), deposit(6, agent="another")]],
    ids=["none", "one left out", "one invented", "another agent"],
)
def test_deposits_that_nodes_contradict_each_other_about_are_not_believed(nodes, truth, liar, logs):
    truth_of_deposits = [deposit(4), deposit(6)]
    chain = tell(nodes, truth, liar, eth_getLogs=logs)
    nodes[1 - liar].answers["eth_getLogs"] = truth_of_deposits
    with pytest.raises(ChainUnavailable):
        chain.search_escrow(1, FINAL, none_of_ours)

    # In whatever order.
    nodes[liar].answers["eth_getLogs"] = truth_of_deposits[::-1]
    assert [one.block_number for one in chain.search_escrow(1, FINAL, none_of_ours).deposits] == [4, 6]


def test_a_node_that_is_behind_does_not_say_that_there_are_no_deposits(nodes, truth, liar):
    chain = tell(nodes, truth, liar, eth_getLogs=[], eth_getBlockByNumber=None)
    for honest in (node for node in nodes if node is not nodes[liar]):
        honest.answers["eth_getLogs"] = [deposit(4)]

    assert [one.named_agent for one in chain.search_escrow(1, FINAL, none_of_ours).deposits] == ["agent"]
    with pytest.raises(ChainUnavailable):
        adapter(nodes[liar]).search_escrow(1, FINAL, none_of_ours)


@pytest.mark.parametrize(
    "log",
    [
        deposit(4, address=TOKEN),
        deposit(4, topics=[hash_of(1), *deposit(4)["topics"][1:]]),
        deposit(FINAL + 1),
        deposit(4, data="0x"),
        deposit(4, topics=[]),
        "a log",
    ],
    ids=["another contract's", "another event", "out of range", "no data", "no topics", "no log"],
)
def test_what_is_not_the_escrows_deposit_is_not_believed(nodes, truth, log):
    nodes[0].answers = truth.answers(eth_getLogs=[log])

    with pytest.raises(ChainUnavailable):
        adapter(nodes[0]).search_escrow(1, FINAL, none_of_ours)


# --- Holdings, sending ------------------------------------------------------------------------------------------------
def void(number: int) -> dict[str, Any]:
    where = {"transactionHash": TX, "logIndex": "0x0", "blockNumber": hex(number), "blockHash": hash_of(number)}
    return {"address": ESCROW, "topics": [VOIDED, hash_of(7)], "data": "0x", **where}


@pytest.mark.parametrize("times", [1, 2, 3])
def test_what_one_node_says_of_blocks_that_are_not_final_stops_nothing_however_often_it_says_so(
    nodes, truth, liar, times
):
    chain = tell(nodes, truth, liar, eth_getLogs=[void(FINAL + 1)] * times)
    honest = [node for node in nodes if node is not nodes[liar]]
    for node in honest:
        node.answers["eth_getLogs"] = []
    assert list(chain.peek_escrow(finality()).block_numbers()) == []

    honest[0].answers["eth_getLogs"] = [void(FINAL + 1)]
    assert [one.escrow_id for one in chain.peek_escrow(finality()).voids] == [hash_of(7)]


def test_holdings_that_nodes_contradict_each_other_about_are_unknown(nodes, truth, liar):
    chain = tell(nodes, truth, liar, eth_call=word(5))
    with pytest.raises(ChainUnavailable):
        chain.find_holdings(FINAL)

    nodes[liar].answers["eth_call"] = NOT_THERE
    assert chain.find_holdings(FINAL) == {Asset.USDC: 0}


@pytest.mark.parametrize(
    "message",
    [
        "already known",
        "ALREADY_EXISTS: already known",
        "AlreadyKnown, transaction hash is already known",
        "Known transaction",
        "transaction already imported",
        "transaction already in mempool",
        "nonce too low: next nonce 7, tx nonce 3",
        "Nonce too low. Expected nonce to be 8 but got 7.",
        "OldNonce, Current nonce: 7",
        "Transaction nonce is too low. Try incrementing the nonce.",
    ],
)
def test_a_node_that_has_a_transaction_already_has_taken_it(nodes, message):
    nodes[0].answers["eth_sendRawTransaction"] = {"code": -32000, "message": message}

    assert adapter(nodes[0]).send([b"\x02"]) == [None]


@pytest.mark.parametrize(
    "message",
    ["insufficient funds for gas", "replacement transaction underpriced", "unknown transaction type", "nonce too high"],
)
def test_what_no_node_takes_is_refused_for_the_first_ones_reason(nodes, message):
    refusal = {"code": -32000, "message": message}
    nodes[0].answers["eth_sendRawTransaction"] = nodes[1].answers["eth_sendRawTransaction"] = refusal
    assert adapter(*nodes).send([b"\x02"]) == [message]

    nodes[1].answers["eth_sendRawTransaction"] = TX
    assert adapter(*nodes).send([b"\x02"]) == [None]


# --- A payment, from the database to two nodes ------------------------------------------------------------------------
class Case:
    """A payment that was sent, and some nodes: one of them may lie about it."""

    def __init__(self, nodes: list[Node], liar: int, lifetime: timedelta = timedelta(hours=1)) -> None:
        fake = make_fake_chain(relayers=1)
        payment = pay_on(fake, make_agent(), make_service_on(fake))
        broadcast(fake.name, fake)
        row = Settlement.objects.get(payment=payment)
        Settlement.objects.filter(pk=row.pk).update(valid_until=utc_now() + lifetime, raw=RAW)
        # Too old to be signed anew.
        Payment.objects.filter(pk=payment.pk).update(created_at=utc_now() - timedelta(hours=2))
        self.name, self.id, self._nodes, self._liar = fake.name, payment.pk, nodes, liar
        self.truth = Truth(
            row.tx, Order(payment.escrow_id, Asset(payment.asset), payment.amount, payment.recipient), time.time()
        )

    def confirm(self, **lies: Any) -> str:
        """Follow the payment while one node lies; returns its status."""
        chain = tell(self._nodes, self.truth, self._liar, **lies)
        with suppress(ChainUnavailable):
            confirm(self.name, chain)
            resolve_unpaid(self.name, chain)
        return Payment.objects.get(pk=self.id).status


def lies_about(truth: Truth, *, is_paid: bool) -> Mapping[str, Any]:
    said = Truth(truth.tx, truth.order, truth.time)
    said.is_paid = is_paid
    return said.answers()


LIES = ["eth_getTransactionReceipt", "eth_getTransactionCount", "eth_call"]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "methods", [LIES, LIES[:1], LIES[1:], LIES[:2], LIES[::2]], ids=lambda methods: "+".join(one[4:] for one in methods)
)
def test_a_payment_that_waits_is_not_settled_because_a_node_says_so(nodes, liar, methods):
    case = Case(nodes, liar)
    said = lies_about(case.truth, is_paid=True)

    assert case.confirm(**{method: said[method] for method in methods}) == "approved"
    case.truth.is_paid = True
    assert case.confirm() == "settled"


@pytest.mark.django_db
@pytest.mark.parametrize("is_paid", [True, False])
def test_a_lie_concludes_nothing_while_the_other_node_is_away(nodes, liar, is_paid):
    case = Case(nodes[:2], liar)
    other = nodes[1 - liar]
    answering, other.respond = other.respond, lambda _: (503, b"")
    # Paid; or not, and its nonce used by another, and its time over.
    said = dict(lies_about(case.truth, is_paid=is_paid)) | {"eth_getTransactionCount": "0x1"}

    assert case.confirm(**said) == "approved"

    other.respond = answering
    case.truth.is_paid = True
    assert case.confirm() == "settled"


@pytest.mark.django_db
def test_a_payment_that_waits_is_not_failed_because_a_node_says_that_it_reverted(nodes, liar):
    case = Case(nodes, liar)
    reverted = receipt(case.truth.tx, [], is_success=False)

    for lies in ({}, {"eth_getTransactionCount": "0x1"}, {"eth_getTransactionCount": "0x1", "eth_call": word(0)}):
        assert case.confirm(eth_getTransactionReceipt=reverted, **lies) == "approved"
    case.truth.is_paid = True
    assert case.confirm() == "settled"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "lies",
    [
        {"eth_getTransactionReceipt": lambda tx: receipt(tx, [], is_success=False)},
        {"eth_getTransactionReceipt": None},
        {"eth_call": word(0)},
        {"eth_call": word(2)},
        {"eth_getTransactionReceipt": None, "eth_call": word(0)},
        {"eth_getTransactionReceipt": None, "eth_call": word(0), "eth_getTransactionCount": "0x0"},
    ],
    ids=["reverted", "no receipt", "not paid", "two", "neither", "nothing at all"],
)
def test_a_payment_that_was_made_is_not_failed_because_a_node_says_so(nodes, liar, lies):
    # Its time is over: what is not paid now never will be.
    case = Case(nodes, liar, lifetime=timedelta(hours=-1))
    case.truth.is_paid = True

    assert case.confirm(**lies) != "failed"
    assert case.confirm() == "settled"


@pytest.mark.django_db
def test_a_payment_does_not_expire_because_a_node_says_how_late_it_is(nodes, liar):
    case = Case(nodes, liar)
    later = Truth(case.truth.tx, case.truth.order, case.truth.time + 7200)

    assert case.confirm(eth_getBlockByNumber=later.block) == "approved"
    case.truth.time += 7200
    assert case.confirm() == "failed"


@pytest.mark.django_db
def test_a_node_that_is_behind_fails_nothing_while_it_is_alone(nodes):
    case = Case(nodes[:1], 0, lifetime=timedelta(hours=-1))

    assert case.confirm(eth_call=NOT_THERE) == "approved"
    assert case.confirm() == "failed"


@pytest.mark.django_db
def test_a_node_that_keeps_no_old_state_proves_all_the_same_that_a_late_payment_was_never_made(nodes):
    case = Case(nodes[:1], 0, lifetime=timedelta(hours=-1))
    pruned = {
        "eth_getTransactionCount": lambda _, block: NOT_THERE if block == hex(FINAL) else "0x0",
        "eth_call": lambda _, block: NOT_THERE if block == hex(FINAL) else word(0),
    }

    assert case.confirm(**pruned) == "failed"


@pytest.mark.django_db
def test_a_node_that_keeps_no_old_state_settles_what_was_paid(nodes):
    case = Case(nodes[:1], 0)
    case.truth.is_paid = True
    pruned = {
        "eth_getTransactionCount": lambda _, block: NOT_THERE if block == hex(FINAL) else "0x1",
        "eth_call": lambda _, block: NOT_THERE if block == hex(FINAL) else word(1),
    }

    assert case.confirm(**pruned) == "settled"


@pytest.mark.django_db
def test_nothing_is_settled_because_a_node_says_that_its_block_is_final(nodes, liar):
    case = Case(nodes, liar)
    order = case.truth.order
    honest = case.truth.answers(
        eth_getTransactionReceipt=lambda tx: receipt(tx, [transfer(order)], number=12),
        eth_getTransactionCount=lambda _, block: "0x0" if block == hex(FINAL) else "0x1",
        eth_call=lambda *_: word(1),
    )
    for node in nodes:
        node.answers = dict(honest)
    nodes[liar].answers["eth_getTransactionReceipt"] = lambda tx: receipt(tx, [transfer(order)], number=5)

    confirm(case.name, adapter(*nodes))

    assert Payment.objects.get(pk=case.id).status == "approved"


@pytest.mark.django_db
def test_a_first_node_that_stopped_following_the_chain_holds_up_nothing(nodes):
    case = Case(nodes, 0)
    case.truth.is_paid = True
    yesterday = Truth(case.truth.tx, case.truth.order, case.truth.time - 86_400)
    yesterday.head = 3

    def old(answer: Any) -> Any:
        return lambda _, block: answer if block == "latest" or int(block, 16) <= 3 else NOT_THERE

    stuck = {"eth_getBlockByNumber": yesterday.block, "eth_getTransactionReceipt": None}
    assert case.confirm(**stuck, eth_getTransactionCount=old("0x0"), eth_call=old(word(0))) == "settled"


@pytest.mark.django_db
def test_a_payment_by_an_earlier_escrow_is_asked_of_that(nodes):
    case = Case(nodes, 0)
    case.truth.is_paid = True
    for node in nodes:
        node.answers = case.truth.answers(eth_call=lambda call, _: word(int(call["to"].lower() == ESCROW)))
    chain = adapter(*nodes)
    chain = EvmChain(replace(chain.served, escrow="0x" + "77" * 20), held_key("RELAYER_SEED"))

    confirm(case.name, chain)

    assert Payment.objects.get(pk=case.id).status == "settled"


def test_a_chain_whose_nodes_contradict_each_other_does_not_hide_that_anothers_do(nodes, truth, caplog):
    truth.is_paid = True
    one = tell(nodes[:2], truth, 0, eth_call=word(0))
    served = replace(one.served, chain=replace(one.served.chain, aliases=("another",)))
    other = EvmChain(served, held_key("RELAYER_SEED"))
    for chain in (one, other, one, other):
        chain.find_proofs([sought(truth)], finality())

    said = [message.split(":")[0] for message in caplog.messages if "contradict" in message]
    assert said == [one.served.chain.alias, "another"]
