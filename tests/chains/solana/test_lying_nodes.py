"""A Solana node that lies, lags or has forgotten beside an honest one settles nothing, fails nothing, signs nothing."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from solders.keypair import Keypair

from allowance.kernel.assets import Asset
from allowance.kernel.times import utc_now
from chains.port import (
    NOTHING_PROVEN,
    ChainUnavailable,
    Finality,
    NonceProof,
    Order,
    PaymentProof,
    Proof,
    SignedTransaction,
    Submitter,
    TransactionQuery,
)
from chains.solana.adapter import SolanaChain
from payments.models import ChainState, DepositCursor, Payment, Settlement
from payments.settling.broadcasting import broadcast
from payments.settling.confirming import confirm
from policy.signer import LocalSigner
from tests.support.chains import make_fake_chain, make_service_on, pay_on
from tests.support.deposits import none_of_ours
from tests.support.factories import make_agent
from tests.support.fake_nodes import Node
from tests.support.fake_solana_nodes import (
    FINAL,
    GENESIS,
    HEIGHT,
    NEWEST,
    RELAYER,
    Truth,
    adapter,
    blocks,
    some_hash,
    some_tx,
    status,
    tell,
)
from tests.support.solana_vm import SEED, SIGNER_KEY

UNKNOWN = NOTHING_PROVEN
PAID = Proof(PaymentProof.PAID, NonceProof.USED)
FAILED = Proof(PaymentProof.UNPAID, NonceProof.USED)
ABSENT = Proof(PaymentProof.UNKNOWN, NonceProof.UNUSED)
GONE = Proof(PaymentProof.UNPAID, NonceProof.UNUSED)
ERROR = {"InstructionError": [3, {"Custom": 1}]}
TURN = Submitter(0, str(RELAYER), None)
OLD = some_hash(6)
ORDER = Order("pay_" + "0" * 26, Asset.SOL, Decimal(1), str(Keypair().pubkey()))


@pytest.fixture
def nodes() -> Iterator[list[Node]]:
    made = [Node(), Node(), Node()]
    yield made
    for node in made:
        node.close()


@pytest.fixture(params=[0, 1], ids=["the first lies", "the second lies"])
def liar(request) -> int:
    return int(request.param)


def finality(final: int = FINAL, height: int = HEIGHT) -> Finality:
    return Finality(final, utc_now(), newest=NEWEST, height=height)


def sign(truth: Truth, order: Order = ORDER) -> SignedTransaction:
    """Sign a payment with what an honest node said when `OLD` was the newest blockhash."""
    node = Node()
    try:
        chain = tell([node], replace(truth, blockhash=OLD))
        return chain.prepare(order, TURN, chain.observe(), utc_now(), LocalSigner(SEED[:32], SEED[32:], SIGNER_KEY))
    finally:
        node.close()


def sought(truth: Truth, **changes: Any) -> TransactionQuery:
    """Look for a payment that was signed in slot 700, and good until height 850."""
    signed = sign(truth)
    return replace(TransactionQuery(signed.tx, signed.raw, TURN, ORDER, None, "", 850, 700), **changes)


# --- Finality ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "lie",
    [{"final": 10**6, "height": 10**6}, {"final": 10**6, "height": 10**6, "time": 1e6}, {"final": 3, "time": 1e6}],
    ids=["ahead", "ahead and stale", "stale"],
)
def test_a_node_alone_does_not_say_what_is_final(nodes, truth, liar, lie):
    said = tell(nodes, truth, liar, **replace(truth, **lie).answers()).find_finality()

    assert (said.block_number, said.height) == (FINAL, HEIGHT)
    assert abs(said.time - utc_now()) < timedelta(minutes=1)


def test_a_node_that_is_a_little_behind_delays_finality(nodes, truth, liar):
    behind = replace(truth, final=FINAL - 20, height=HEIGHT - 20, newest=NEWEST - 20, time=truth.time - 8).answers()

    two, three = (tell(some, truth, liar, **behind).find_finality() for some in (nodes[:2], nodes))
    assert (two.block_number, two.height) == (FINAL - 20, HEIGHT - 20)
    assert (three.block_number, three.height) == (FINAL, HEIGHT)
    assert two.newest == three.newest == NEWEST - 20


def test_one_of_several_nodes_alone_makes_nothing_final(nodes, truth):
    chain = tell(nodes[:2], truth)
    one = sought(truth)
    nodes[1].respond = lambda _: (503, b"")

    said = chain.find_finality()
    assert (said.block_number, said.height, said.time) == (0, 0, datetime.fromtimestamp(0, UTC))
    with pytest.raises(ChainUnavailable):
        chain.search_escrow(1, FINAL, none_of_ours)
    with pytest.raises(ChainUnavailable):
        chain.find_holdings(FINAL)
    assert chain.find_proofs([one], finality()) == {one.tx: UNKNOWN}


# --- Inclusions -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("said", [None, status(900, commitment="processed"), status(900, commitment="confirmed")])
def test_what_one_node_has_not_seen_another_may_have(nodes, truth, liar, said):
    one = sought(truth)
    truth.statuses[one.tx] = status(900)
    chain = tell(nodes, truth, liar, getSignatureStatuses=lambda *_: truth.context([said]))

    found = chain.find_inclusions([one], finality()).inclusions[one.tx]
    assert (found.block_number, found.is_final, found.failure) == (900, True, None)


def test_what_is_processed_is_in_no_block_yet(nodes, truth):
    one = sought(truth)
    truth.statuses[one.tx] = status(900, commitment="processed")

    assert tell(nodes, truth).find_inclusions([one], finality()).inclusions == {}


def test_nothing_is_final_because_a_node_alone_says_so(nodes, truth, liar):
    one = sought(truth)
    truth.statuses[one.tx] = status(NEWEST, commitment="confirmed")
    chain = tell(nodes, truth, liar, getSignatureStatuses=lambda *_: truth.context([status(NEWEST)]))

    assert not chain.find_inclusions([one], finality()).inclusions[one.tx].is_final


def test_a_block_that_there_cannot_be_is_not_believed(nodes, truth, liar):
    one = sought(truth)
    chain = tell(nodes, truth, liar, getSignatureStatuses=lambda *_: truth.context([status(10**9)]))

    assert chain.find_inclusions([one], finality()).inclusions == {}


def test_a_failure_says_what_failed_once_it_is_final(nodes, truth):
    one = sought(truth)
    truth.statuses[one.tx] = status(NEWEST, {"InstructionError": [7, {"Custom": 1}]}, "confirmed")
    chain = tell(nodes, truth)
    assert chain.find_inclusions([one], finality()).inclusions[one.tx].failure is None

    truth.statuses[one.tx] = status(900, {"InstructionError": [7, {"Custom": 1}]})
    failure = "Failed: custom program error 0x1 (insufficient funds) in instruction 7."
    assert chain.find_inclusions([one], finality()).inclusions[one.tx].failure == failure


# --- Proofs -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("there", "proof"),
    [(status(900), PAID), (status(900, ERROR), FAILED), (None, GONE)],
    ids=["paid", "failed", "gone"],
)
def test_a_proof_is_what_all_nodes_say_that_can_tell(nodes, truth, liar, there, proof):
    one = sought(truth)
    truth.statuses[one.tx] = there
    assert tell(nodes, truth).find_proofs([one], finality()) == {one.tx: proof}

    unable = {
        "is behind": replace(truth, final=FINAL - 1, statuses={}).answers(),
        "knows an older state": {"getSignatureStatuses": lambda *_: {"context": {"slot": FINAL - 1}, "value": [None]}},
        "answers as of before its own final block": {
            "getEpochInfo": {"absoluteSlot": NEWEST + 1, "blockHeight": HEIGHT + 30},
            "getSignatureStatuses": lambda *_: truth.context([None]),
        },
        "has forgotten": {"getFirstAvailableBlock": 701, "getSignatureStatuses": lambda *_: truth.context([None])},
        "has it not final yet": {"getSignatureStatuses": lambda *_: truth.context([status(900, None, "confirmed")])},
        "answers with an error": {"getSignatureStatuses": {"code": -32000, "message": "no history"}},
        "answers in another form": {"getSignatureStatuses": lambda *_: truth.context([{"slot": -1}])},
    }
    for how, lies in unable.items():
        assert tell(nodes, truth, liar, **lies).find_proofs([one], finality()) == {one.tx: proof}, how
        assert tell(nodes[:2], truth, liar, **lies).find_proofs([one], finality()) == {one.tx: UNKNOWN}, how
    for lie in (None, status(900), status(900, ERROR), status(899)):
        if lie != there:
            lying = tell(nodes, truth, liar, getSignatureStatuses=lambda *_, lie=lie: truth.context([lie]))
            assert lying.find_proofs([one], finality()) == {one.tx: UNKNOWN}, lie


@pytest.mark.parametrize(
    "changes",
    [{"valid_until_height": HEIGHT}, {"valid_until_height": None}],
    ids=["its last block is the final one", "it does not expire"],
)
def test_what_can_still_land_is_absent_for_now(nodes, truth, changes):
    one = sought(truth, **changes)

    assert tell(nodes, truth).find_proofs([one], finality()) == {one.tx: ABSENT}


def test_nobody_can_tell_that_something_is_absent_without_knowing_since_when_it_could_be_there(nodes, truth):
    one = sought(truth, valid_from_block=None)
    chain = tell(nodes, truth)
    assert chain.find_proofs([one], finality()) == {one.tx: UNKNOWN}

    truth.statuses[one.tx] = status(900)
    assert chain.find_proofs([one], finality()) == {one.tx: PAID}


def test_what_is_past_its_last_block_on_one_node_alone_is_absent_for_now(nodes, truth, liar):
    one = sought(truth)
    chain = tell(nodes, truth, liar, **replace(truth, height=850).answers())

    assert chain.find_proofs([one], finality()) == {one.tx: ABSENT}


@pytest.mark.parametrize("commitment", ["finalized", "processed"])
def test_what_was_signed_as_good_for_too_short_is_not_gone_before_its_blockhash_is(nodes, truth, liar, commitment):
    one = sought(truth)

    def usable(blockhash: str, config: Any) -> Any:
        return truth.context(blockhash == OLD and config["commitment"] == commitment)

    assert tell(nodes, truth, liar, isBlockhashValid=usable).find_proofs([one], finality()) == {one.tx: ABSENT}
    assert tell(nodes, truth).find_proofs([one], finality()) == {one.tx: GONE}


def test_a_node_says_how_far_it_is_before_it_says_what_is_absent(nodes, truth):
    one = sought(truth)
    tell(nodes[:1], truth).find_proofs([one], finality())

    asked = [method for method in nodes[0].asked if method != "getGenesisHash"]
    whole = ["getBlocksWithLimit", "getBlock", "getBlock"]
    position = ["getFirstAvailableBlock", "getEpochInfo"]
    usable = ["isBlockhashValid", "isBlockhashValid"]
    assert asked == [*position, "getSignatureStatuses", *whole, *position, *usable, "getSignatureStatuses"]


def test_proofs_of_many_are_asked_for_together(nodes, truth):
    one = sought(truth)
    many = [replace(one, tx=some_tx(number)) for number in range(1, 301)]
    for number in range(1, 201):
        truth.statuses[some_tx(number)] = status(900)

    proofs = tell(nodes[:1], truth).find_proofs(many, finality())

    assert [proofs[one.tx] for one in many] == [PAID] * 200 + [GONE] * 100
    assert len(nodes[0].requests) < 6
    assert nodes[0].asked.count("getBlocksWithLimit") == 1


HOLES: dict[str, dict[str, Any]] = {
    "misses some in between": {"getBlocksWithLimit": [*blocks(700, 800), *blocks(820, FINAL)]},
    "misses the first": {"getBlocksWithLimit": blocks(701, FINAL)},
    "misses the last": {"getBlocksWithLimit": blocks(700, 940)},
    "has none of them": {"getBlocksWithLimit": []},
    "does not list them": {"getBlocksWithLimit": {"code": -32001, "message": "Block 700 cleaned up"}},
    "lists other ones": {"getBlocksWithLimit": [600, *blocks(701, FINAL)]},
    "lists some twice": {"getBlocksWithLimit": [*blocks(700, 800), 800, *blocks(802, FINAL)]},
    "lists something else": {"getBlocksWithLimit": "blocks"},
    "does not have one that it lists": {"getBlock": {"code": -32004, "message": "Block not available"}},
    "has one that it lists no more": {"getBlock": None},
    "does not say how high they are": {"getBlock": lambda slot, _: Truth().header(slot) | {"blockHeight": None}},
    "does not say what they follow": {"getBlock": lambda slot, _: Truth().header(slot) | {"parentSlot": None}},
    "says of an older state which blockhashes are good": {
        "isBlockhashValid": {"context": {"slot": FINAL - 1}, "value": False}
    },
}


@pytest.mark.parametrize("lies", HOLES.values(), ids=HOLES.keys())
def test_a_node_whose_history_has_a_hole_cannot_tell_that_something_is_gone(nodes, truth, liar, lies):
    one = sought(truth)

    assert tell(nodes, truth, liar, **lies).find_proofs([one], finality()) == {one.tx: GONE}
    assert tell(nodes[:2], truth, liar, **lies).find_proofs([one], finality()) == {one.tx: UNKNOWN}
    assert tell([nodes[liar]], truth, 0, **lies).find_proofs([one], finality()) == {one.tx: UNKNOWN}


def test_a_node_with_a_hole_is_heard_about_what_it_has(nodes, truth, liar):
    one = sought(truth)
    chain = tell(nodes, truth, liar, **HOLES["misses some in between"])
    said = iter([None, status(900)])
    nodes[liar].answers["getSignatureStatuses"] = lambda *_: truth.context([next(said)])

    assert chain.find_proofs([one], finality()) == {one.tx: UNKNOWN}


def test_a_hole_elsewhere_says_nothing_about_what_was_good_before_or_after_it(nodes, truth):
    one, early, late = sought(truth), some_tx(1), some_tx(2)
    many = [
        replace(one, tx=early, valid_from_block=500, valid_until_height=560),
        one,
        replace(one, tx=late, valid_from_block=821, valid_until_height=899),
    ]
    listed = blocks(500, 800) + blocks(820, FINAL)
    chain = tell(nodes[:1], truth, 0, getBlocksWithLimit=lambda first, *_: [slot for slot in listed if slot >= first])

    assert chain.find_proofs(many, finality()) == {early: UNKNOWN, one.tx: UNKNOWN, late: GONE}


# --- What is signed by ------------------------------------------------------------------------------------------------
def test_nothing_is_signed_by_while_one_of_several_nodes_alone_says_what_is_final(nodes, truth, liar):
    nodes[liar].respond = lambda _: (503, b"")
    chain = tell(nodes[:2], truth)

    with pytest.raises(ChainUnavailable, match="not known what is final"):
        chain.observe()


@pytest.mark.parametrize("blocks", [HEIGHT + 149, HEIGHT + 2_000, 0, -1, None], ids=str)
def test_a_blockhash_that_is_not_good_for_as_long_as_it_should_is_not_signed_with(nodes, truth, blocks):
    said = {"blockhash": truth.blockhash, "lastValidBlockHeight": blocks}
    chain = tell(nodes, truth, 0, getLatestBlockhash=lambda _: truth.context(said))

    assert chain.observe()["lastValidBlockHeight"] == HEIGHT + 32 + 150
    assert "getLatestBlockhash" in nodes[1].asked


@pytest.mark.parametrize("count", [2, 3])
def test_a_blockhash_that_one_node_alone_knows_is_not_signed_with(nodes, truth, liar, count):
    # It could be another chain's, on which the same keys own another escrow.
    foreign = {"blockhash": some_hash(8), "lastValidBlockHeight": HEIGHT + 32 + 150}
    lies = {
        "getLatestBlockhash": lambda _: truth.context(foreign),
        "isBlockhashValid": lambda one, _: truth.context(one in (truth.blockhash, foreign["blockhash"])),
    }

    assert tell(nodes[:count], truth, liar, **lies).observe()["blockhash"] == truth.blockhash


def test_two_nodes_that_know_no_blockhash_of_each_other_are_not_signed_by(nodes, truth, liar):
    chain = tell(nodes[:2], truth, liar, isBlockhashValid=lambda *_: truth.context(False))

    with pytest.raises(ChainUnavailable, match="could be another chain's"):
        chain.observe()


@pytest.mark.parametrize("answer", [None, {"code": -32601, "message": "method not found"}, True], ids=str)
def test_a_node_that_does_not_say_which_blockhashes_it_knows_has_no_say(nodes, truth, liar, answer):
    assert tell(nodes, truth, liar, isBlockhashValid=answer).observe()["blockhash"] == truth.blockhash
    with pytest.raises(ChainUnavailable):
        tell(nodes[:2], truth, liar, isBlockhashValid=answer).observe()


def test_a_node_that_is_a_moment_behind_does_not_keep_the_others_from_signing(nodes, truth, liar):
    # Its newest blockhash the others know; theirs it does not know yet.
    behind = replace(truth, blockhash=OLD, final=FINAL - 10, height=HEIGHT - 10, newest=NEWEST - 10)
    others = replace(truth, usable={OLD})

    assert tell(nodes[:2], others, liar, **behind.answers()).observe()["blockhash"] == OLD
    assert tell(nodes, others, liar, **behind.answers()).observe()["blockhash"] in (OLD, truth.blockhash)


def test_of_a_blockhash_the_newest_state_of_a_node_is_asked(nodes, truth):
    asked = []

    def check(_: str, config: Any) -> Any:
        asked.append(config)
        return truth.context(True)

    tell(nodes[:1], truth, 0, isBlockhashValid=check).observe()

    assert asked == [{"commitment": "processed"}]


def test_where_a_payment_can_be_first_is_not_one_nodes_word(nodes, truth):
    said = {"blockhash": truth.blockhash, "lastValidBlockHeight": HEIGHT + 32 + 150}
    chain = tell(nodes, truth, 0, getLatestBlockhash={"context": {"slot": 10**9}, "value": said})

    assert chain.observe()["slot"] == FINAL


def test_what_is_signed_by_is_not_taken_from_a_node_that_stopped_following_the_chain(nodes, truth):
    yesterday = replace(truth, final=10, height=9, newest=11, time=truth.time - 86_400)

    assert tell(nodes, truth, 0, **yesterday.answers()).observe()["lastValidBlockHeight"] == HEIGHT + 32 + 150


# --- A payment, from the database to two nodes ------------------------------------------------------------------------
class Renewing(SolanaChain):
    """Signs again without asking what is observed; counts how often."""

    renewed = 0

    def prepare(self, *_: Any, **__: Any) -> SignedTransaction:
        self.renewed += 1
        return SignedTransaction(some_tx(10**6), b"", Decimal(0), valid_until_height=10**6, valid_from_block=FINAL)


class Case:
    """A payment that was sent, good until height 850, and some nodes: one of them may lie about it."""

    def __init__(self, nodes: list[Node], liar: int) -> None:
        fake = make_fake_chain(relayers=1, has_nonces=False)
        payment = pay_on(fake, make_agent(), make_service_on(fake))
        broadcast(fake.name, fake)
        self.name, self.id, self._nodes, self._liar = fake.name, payment.pk, nodes, liar
        self.truth = Truth()
        signed = sign(self.truth)
        row = Settlement.objects.get(payment=payment)
        Settlement.objects.filter(pk=row.pk).update(raw=signed.raw, valid_until_height=850, valid_from_block=700)
        self.tx = row.tx
        ChainState.objects.filter(pk=fake.name).update(observed_at=utc_now())

    def confirm(self, **lies: Any) -> tuple[str, int]:
        """Follow the payment while one node lies; returns its status, and how often it was signed again."""
        honest = tell(self._nodes, self.truth, self._liar, **lies)
        chain = Renewing(honest.served, SEED, honest.signers)
        # The escrow's history was searched all the way, and holds no stray.
        searched = {"block_number": 2 * FINAL, "escrow": chain.escrow, "moved_at": utc_now()}
        DepositCursor.objects.update_or_create(chain=self.name, defaults=searched)
        with suppress(ChainUnavailable):
            confirm(self.name, chain)
        return Payment.objects.get(pk=self.id).status, chain.renewed


@pytest.mark.django_db
@pytest.mark.parametrize("error", [None, ERROR], ids=["paid", "failed"])
def test_a_payment_that_is_absent_is_neither_settled_nor_failed_because_a_node_says_so(nodes, liar, error):
    case = Case(nodes, liar)
    case.truth.height = 800

    assert case.confirm(getSignatureStatuses=lambda *_: case.truth.context([status(900, error)])) == ("approved", 0)
    case.truth.statuses[case.tx] = status(900)
    assert case.confirm() == ("settled", 0)


@pytest.mark.django_db
def test_a_payment_that_was_made_is_not_signed_again_because_a_node_does_not_have_it(nodes, liar):
    case = Case(nodes, liar)
    case.truth.statuses[case.tx] = status(900)

    assert case.confirm(getSignatureStatuses=lambda *_: case.truth.context([None])) == ("approved", 0)
    assert case.confirm() == ("settled", 0)


@pytest.mark.django_db
@pytest.mark.parametrize("away", [True, False])
def test_a_payment_is_not_signed_again_on_one_nodes_word(nodes, liar, away):
    case = Case(nodes[:2], liar)
    other = nodes[1 - liar]
    answering = other.respond
    other.respond = (lambda _: (503, b"")) if away else answering
    # An honest node that is behind cannot say that nothing is there.
    case.truth.final, case.truth.height = (FINAL, HEIGHT) if away else (600, 500)

    assert case.confirm(**replace(case.truth, final=FINAL, height=HEIGHT).answers()) == ("approved", 0)

    other.respond, case.truth.final, case.truth.height = answering, FINAL, HEIGHT
    assert case.confirm() == ("approved", 1)


@pytest.mark.django_db
def test_a_payment_whose_blockhash_is_still_good_is_not_signed_again(nodes, liar):
    # A node said when it was signed that it would be good for less long than it is.
    case = Case(nodes, liar)
    case.truth.usable.add(OLD)

    assert case.confirm(isBlockhashValid=lambda *_: case.truth.context(False)) == ("approved", 0)
    case.truth.usable.clear()
    assert case.confirm() == ("approved", 1)


def test_a_node_of_another_chain_counts_as_away(nodes, truth):
    chain = tell(nodes[:2], truth, 0, getGenesisHash="5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d")
    chain.find_finality()
    assert nodes[0].asked == ["getGenesisHash"]

    answers: list[Any] = [None, 5, {}, "", GENESIS[:31]]
    for answer in answers:
        nodes[1].answers["getGenesisHash"] = answer
        with pytest.raises(ChainUnavailable):
            adapter(nodes[1]).find_finality()


# --- Costs ------------------------------------------------------------------------------------------------------------
def spending(tx: str, lamports: int) -> dict[str, Any]:
    meta = {"preBalances": [10**9, 5], "postBalances": [10**9 - lamports, 5]}
    return {"transaction": {"signatures": [tx]}, "meta": meta}


@pytest.mark.parametrize("lie", [0, 10**9, None])
def test_a_node_alone_can_neither_inflate_the_cost_of_a_new_account_nor_hide_it(nodes, truth, lie):
    signed = sign(truth, replace(ORDER, asset=Asset.USDC))
    landed = TransactionQuery(signed.tx, signed.raw, TURN, None, 5, "5", most_cost=signed.most_cost)
    honest = spending(signed.tx, 2_049_280)
    lying = None if lie is None else spending(signed.tx, lie)
    truth.transactions[signed.tx] = honest

    chain = tell(nodes, truth, 0, getTransaction=lying)

    assert chain.find_costs([landed], finality()) == {signed.tx: Decimal("0.00204928")}
    # Of two that contradict each other, neither is believed.
    assert adapter(*nodes[:2]).find_costs([landed], finality()) == {}


def test_of_a_transaction_that_makes_no_account_the_cost_is_signed_and_no_node_is_asked(nodes, truth):
    signed = sign(truth)
    landed = TransactionQuery(signed.tx, signed.raw, TURN, None, 5, "5", most_cost=signed.most_cost)

    silent = tell(nodes, truth, 0)
    for node in nodes:
        node.respond = lambda _: (503, b"")

    assert silent.find_costs([landed], finality()) == {signed.tx: Decimal("0.00001")}


# --- Fees -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("lie", [0, 10**9], ids=["nothing", "more than all"])
def test_a_node_alone_cannot_make_payments_dear_by_what_others_offer(nodes, liar, lie):
    truth = Truth(prices=[300] * 5)
    lying = [{"slot": 1, "prioritizationFee": lie}]

    state = tell(nodes[:2], truth, liar, getRecentPrioritizationFees=lying).observe()

    assert state["unitPriceMicroLamports"] == min(lie, 300)


def test_no_price_is_known_while_only_one_of_several_nodes_says_any(nodes, truth):
    with pytest.raises(ChainUnavailable):
        tell(nodes[:2], truth, 0, getRecentPrioritizationFees=None).observe()


def test_a_chain_whose_nodes_contradict_each_other_does_not_hide_that_anothers_do(nodes, truth, caplog):
    asked = sought(truth)
    truth.statuses[asked.tx] = status(900)
    one = tell(nodes[:2], truth, 0, getSignatureStatuses=lambda *_: truth.context([status(900, ERROR)]))
    served = replace(one.served, chain=replace(one.served.chain, aliases=("another",)))
    other = SolanaChain(served, SEED, one.signers)
    for chain in (one, other, one, other):
        chain.find_proofs([asked], finality())

    said = [message.split(":")[0] for message in caplog.messages if "contradict" in message]
    assert said == [one.served.chain.alias, "another"]
