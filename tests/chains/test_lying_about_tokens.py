"""A node that lies about a token neither takes its asset out of service where two agree otherwise, nor puts it back."""

from typing import Any

import pytest

from chains.port import ChainUnavailable, PaymentSigner, Submitter, TransactionPlan
from chains.rpc.token_agreement import agree_on_tokens
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from tests.support import fake_solana_nodes as solana
from tests.support.evm_escrow import call
from tests.support.fake_nodes import NOT_THERE, TOKEN, Node, Truth, adapter, order_of, tell, word

DECIMALS, CAP = call("decimals()"), call("dailyCap(address)", TOKEN)[:10]
SIX, ENOUGH = word(6), word(10**9)
NO_TOKEN = f"There is no USDC at {TOKEN}."
REVERTED = {"code": 3, "message": "execution reverted"}


def there(decimals: Any = SIX, cap: Any = ENOUGH) -> dict[str, Any]:
    """Say that the token is there, with so many decimals and such a cap."""

    def read(wanted: dict[str, str], _block: str) -> Any:
        if wanted["data"] == DECIMALS:
            return decimals
        return cap if wanted["data"].startswith(CAP) else word(0)

    return {"eth_getCode": "0x60", "eth_call": read}


MISSING = {**there(decimals="0x"), "eth_getCode": "0x"}


def objection(chain: Any, known: Any = None) -> str | None:
    found: str | None = chain.observer.observe(known)["tokens"]["USDC"]["objection"]
    return found


def knowing(chain: Any, said: str | None) -> dict[str, Any]:
    return {"configuration": chain.preparer.configuration, "tokens": {"USDC": {"objection": said}}}


def let(nodes: list[Node], truth: Truth, liar: int, *, honest: dict[str, Any], lie: dict[str, Any]) -> None:
    for number, node in enumerate(nodes):
        node.answers = truth.answers(**(lie if number == liar else honest))


@pytest.mark.parametrize("known", [None, NO_TOKEN])
def test_two_nodes_that_know_a_token_are_believed_against_one_that_does_not(nodes, truth, liar, known):
    let(nodes, truth, liar, honest=there(), lie=MISSING)
    chain = adapter(*nodes)

    assert objection(chain, knowing(chain, known)) is None


@pytest.mark.parametrize("known", [None, NO_TOKEN])
def test_one_node_does_not_put_back_what_two_miss(nodes, truth, liar, known):
    let(nodes, truth, liar, honest=MISSING, lie=there())
    chain = adapter(*nodes)

    assert objection(chain, knowing(chain, known)) == NO_TOKEN


@pytest.mark.parametrize("known", [None, NO_TOKEN])
@pytest.mark.parametrize("lie", [MISSING, {"eth_getCode": NOT_THERE, "eth_call": NOT_THERE}], ids=["lies", "is away"])
def test_where_too_few_agree_what_was_known_stays(nodes, truth, liar, known, lie):
    let(nodes[:2], truth, liar, honest=there(), lie=lie)
    chain = adapter(*nodes[:2])

    assert objection(chain, knowing(chain, known)) == known
    assert objection(chain) == "Too few nodes agree on the token of USDC."
    elsewhere = {**knowing(chain, None), "configuration": "of another token"}
    assert objection(chain, elsewhere) == "Too few nodes agree on the token of USDC."


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (there(), None),
        (MISSING, NO_TOKEN),
        (there(decimals=REVERTED), f"The USDC at {TOKEN} does not tell its decimals: it is no token."),
        (there(decimals=word(18)), f"The USDC at {TOKEN} has 18 decimals, not 6."),
        (there(cap=word(0)), "The escrow's daily cap for USDC is zero: its owner sets it (setDailyCap)."),
        (there(cap=word(1)), None),
    ],
    ids=["there", "no code", "no ERC-20", "other decimals", "no cap", "least cap"],
)
def test_a_payment_in_a_missing_asset_is_refused_with_a_sentence_that_names_it(nodes, truth, answers, said):
    chain = tell(nodes[:1], truth, 0, **answers)
    state = chain.observer.observe()
    assert state["tokens"]["USDC"]["objection"] == said

    # Without a token to object to, the next thing that is missing is the relayer's key.
    with pytest.raises(ChainUnavailable, match=said.replace("(", r"\(").replace(")", r"\)") if said else "The relayer"):
        prepare(chain, state)


def prepare(chain: Any, state: Any) -> None:
    signer: PaymentSigner = None  # type: ignore[assignment] # it is not asked
    chain.preparer.prepare(TransactionPlan.of_one(order_of(), Submitter(0, "0xnobody", 0), state, signer), utc_now())


def test_tokens_are_asked_for_only_when_it_is_time(nodes, truth):
    chain = tell(nodes[:1], truth, 0, **MISSING)

    kept = chain.observer.observe(knowing(chain, "What was known.") | {"mostTogether": 7}, checks_tokens=False)

    assert kept["tokens"]["USDC"]["objection"] == "What was known."
    assert kept["mostTogether"] == 7
    assert "eth_getCode" not in nodes[0].asked


# --- Holdings ---------------------------------------------------------------------------------------------------------
def test_a_missing_token_holds_nothing_and_one_that_cannot_be_asked_is_left_out(nodes, truth):
    assert tell(nodes[:1], truth, 0, eth_call="0x").escrow.find_holdings(10) == {Asset.USDC: 0}
    assert tell(nodes[:1], truth, 0, eth_call=REVERTED).escrow.find_holdings(10) == {}
    assert tell(nodes[:1], truth, 0, eth_call=word(5_000_000)).escrow.find_holdings(10) == {Asset.USDC: 5}


@pytest.mark.parametrize("lie", ["0x", REVERTED])
def test_a_node_alone_does_not_make_holdings_vanish(nodes, truth, liar, lie):
    let(nodes, truth, liar, honest={"eth_call": word(5_000_000)}, lie={"eth_call": lie})

    assert adapter(*nodes).escrow.find_holdings(10) == {Asset.USDC: 5}
    with pytest.raises(ChainUnavailable):
        adapter(*nodes[:2]).escrow.find_holdings(10)


# --- Solana -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("count", "known"), [(3, None), (3, "gone"), (2, None), (2, "gone")])
def test_on_solana_a_node_alone_neither_hides_a_mint_nor_shows_one(nodes, liar, count, known):
    with_mint, without = solana.Truth(), solana.Truth()
    without.accounts[str(solana.MINTS[Asset.USDC])] = None
    for honest, lie in ((with_mint, without), (without, with_mint)):
        for number, node in enumerate(nodes[:count]):
            node.answers = (lie if number == liar else honest).answers()
        chain = solana.adapter(*nodes[:count])
        before = knowing(chain, known)
        before["tokens"]["USDC"]["program"] = ""

        found = chain.observer.observe(before)["tokens"]["USDC"]["objection"]

        agreed = None if honest is with_mint else f"There is no USDC at {solana.MINTS[Asset.USDC]}."
        assert found == (agreed if count == 3 else known)


# --- What is agreed on ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("said", "quorum", "known", "agreed"),
    [
        (["a"], 1, None, "a"),
        (["a", "a"], 2, "b", "a"),
        (["a", "b"], 2, "c", "c"),
        (["a"], 2, "c", "c"),
        ([], 1, "c", "c"),
        (["a", "a", "b"], 2, None, "a"),
        (["a", "a", "b", "b"], 2, "c", "c"),
    ],
)
def test_a_quorum_is_believed_unless_another_contradicts_it(said, quorum, known, agreed):
    before = {} if known is None else {"USDC": known}
    assert agree_on_tokens(["USDC"], [{"USDC": one} for one in said], before, quorum=quorum) == {"USDC": agreed}
