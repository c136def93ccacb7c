"""The escrow's deposits: the contract's events, or what came into its accounts."""

from dataclasses import replace
from decimal import Decimal

import pytest

from chains.evm.adapter import EvmChain
from chains.port import ChainUnavailable
from foundation.kernel.assets import Asset
from tests.support.deposits import none_of_ours
from tests.support.limiting_nodes import limiting_nodes

UNREADABLE = "\N{REPLACEMENT CHARACTER}"


def search(chain, first, last, find_our_payments=none_of_ours):
    """Search the escrow's history once its blocks are final."""
    chain.wait_until_final(last)
    return chain.adapter().escrow.search(first, last, find_our_payments)


def found_in(chain, first, last):
    """Look for deposits once their blocks are final."""
    return search(chain, first, last).deposits


# --- On every chain ---------------------------------------------------------------------------------------------------
def test_deposits_of_a_range_are_found_in_order_with_what_arrived(chain):
    amounts = [(asset, f"agent-{n}", 1_250_000 + n) for n in range(2) for asset in chain.assets]

    made = chain.deposit(*((asset, agent.encode(), units) for asset, agent, units in amounts))
    found = found_in(chain, made[0].block_number, made[-1].block_number)

    assert [(one.asset, one.token, one.amount, one.named_agent) for one in found] == [
        (asset, chain.tokens[asset], Decimal(units).scaleb(-asset.decimals), agent) for asset, agent, units in amounts
    ]
    assert [(one.tx, one.block_number) for one in found] == [(one.tx, one.block_number) for one in made]
    assert {one.depositor for one in found} == {chain.owner_address}
    assert len({(one.tx, one.log_index) for one in found}) == len(made)


@pytest.mark.parametrize("text", ["агент 🤖", "x" * 500, " ", "a\nb"], ids=["not ASCII", "long", "blank", "two lines"])
def test_a_deposit_names_its_agent_in_any_text(chain, text):
    (made,) = chain.deposit((Asset.USDC, text.encode(), 5))

    (deposit,) = found_in(chain, made.block_number, made.block_number)

    assert (deposit.named_agent, deposit.amount) == (text, Decimal("0.000005"))


def test_deposits_outside_of_the_range_are_not_found(chain):
    (made,) = chain.deposit((Asset.USDC, b"agent-7", 5))
    number = made.block_number
    chain.mine()
    chain.wait_until_final(number + 1)
    adapter = chain.adapter()

    assert adapter.escrow.search(number - 1, number - 1, none_of_ours).deposits == []
    assert adapter.escrow.search(number + 1, number + 1, none_of_ours).deposits == []
    assert len(adapter.escrow.search(number - 1, number + 1, none_of_ours).deposits) == 1


def test_a_range_that_the_node_does_not_have_yet_is_not_concluded_from(chain):
    with pytest.raises(ChainUnavailable):
        chain.adapter().escrow.search(chain.height, chain.height + 1_000, none_of_ours)


def test_what_is_paid_is_no_deposit(chain):
    payments = [
        chain.pay(submitter, "1", asset)
        for submitter, asset in zip(chain.turns(len(chain.assets)), chain.assets, strict=True)
    ]
    numbers = [one.block_number for one in chain.land(*payments).values()]

    found = search(chain, min(numbers), max(numbers))

    assert found.deposits == []
    expected = [(one.tx, one.order.escrow_id, one.order.asset, one.order.amount) for one in payments]
    assert sorted((one.tx, one.escrow_id, one.asset, one.amount) for one in found.outflows) == sorted(expected)
    recipients = {one.tx: one.recipient.lower() for one in found.outflows}
    # Where a program of the chain's own counts payments, it tells to whom.
    assert set(recipients.values()) <= {"", *(one.order.recipient.lower() for one in payments)}
    assert ("" in recipients.values()) == (chain.adapter().nonces is None)
    assert [*found.voids] == []


def test_a_payment_that_is_known_to_be_final_need_not_be_looked_at(chain):
    payment = chain.pay(chain.turns(1)[0])
    number = chain.land(payment)[payment.tx].block_number

    found = search(chain, number, number, {payment.tx}.intersection)

    assert found.deposits == []
    # Of events there is no need to leave any out.
    assert [one.tx for one in found.outflows] == ([] if chain.adapter().nonces is None else [payment.tx])


def test_what_the_owner_takes_out_is_seen_to_leave(chain):
    held = chain.held()
    first = chain.height
    chain.withdraw(250_000)
    chain.mine()

    found = search(chain, first, chain.height)

    assert chain.held() == held - 250_000
    (taken,) = [one for one in found.outflows if one.escrow_id == ""]
    assert (taken.asset, taken.amount) == (Asset.USDC, Decimal("0.25"))


def test_an_adapter_that_has_just_started_finds_the_same(chain):
    made = chain.deposit(*((Asset.USDC, b"agent-7", 100 + n) for n in range(3)))
    first, last = made[0].block_number, made[-1].block_number
    adapter = chain.adapter()
    chain.wait_until_final(last)

    page_by_page = [adapter.escrow.search(number, number, none_of_ours).deposits for number in range(first, last + 1)]

    assert [one for page in page_by_page for one in page] == found_in(chain, first, last)


# --- On EVM chains ----------------------------------------------------------------------------------------------------
def test_a_deposit_of_a_token_that_is_not_served_is_not_told_of(evm):
    usdc = evm.tokens[Asset.USDC]
    made = evm.deposit_tokens((evm.unserved_token, b"agent-7", 77), (usdc, b"agent-7", 2_000_000))

    found = found_in(evm, made[0].block_number, made[-1].block_number)

    assert [(one.token, one.asset, one.amount) for one in found] == [(usdc, Asset.USDC, Decimal(2))]


@pytest.mark.parametrize(
    ("text", "named_agent"),
    [
        (b"\xff\x00agent\x80", UNREADABLE * 2 + "agent" + UNREADABLE),
        (b"\xed\xa0\x80", UNREADABLE * 3),
        (b"x" * 1024, "x" * 1024),
    ],
    ids=["no text", "half a surrogate pair", "longest"],
)
def test_an_event_may_name_an_agent_in_any_bytes(evm, text, named_agent):
    (made,) = evm.deposit((Asset.USDC, text, 5))

    (deposit,) = found_in(evm, made.block_number, made.block_number)

    assert deposit.named_agent == named_agent


@pytest.mark.parametrize("lacks", [(), ("eth_getBlockReceipts",)], ids=["block receipts", "single receipts"])
def test_blocks_whose_logs_a_node_refuses_to_tell_are_read_by_their_receipts(evm, lacks):
    made = evm.deposit_tokens(
        *((token, b"agent-7", 100 + n) for n in range(8) for token in (evm.unserved_token, evm.tokens[Asset.USDC]))
    )
    first, last = made[0].block_number, made[-1].block_number
    evm.wait_until_final(last)

    with limiting_nodes(evm.url, lacks, most_logs=0) as (node,):
        chain = EvmChain.of(replace(evm.adapter().served, rpc_urls=(node.url,)), bytes(64))
        found = [chain.escrow.search(number, number, none_of_ours) for number in range(first, last + 1)]

    deposits = [one for search in found for one in search.deposits]
    assert [one.amount for one in deposits] == [Decimal(100 + n).scaleb(-6) for n in range(8)]
    assert deposits == found_in(evm, first, last)


# --- On Solana --------------------------------------------------------------------------------------------------------
def test_lamports_that_were_only_transferred_are_a_deposit_and_can_be_paid(solana):
    held = solana.held(Asset.SOL)
    made = solana.give(solana.vault(Asset.SOL), 7_000_000)

    (found,) = found_in(solana, made.block_number, made.block_number)

    assert (found.asset, found.amount, found.named_agent) == (Asset.SOL, Decimal("0.007"), "")
    assert solana.adapter().escrow.find_holdings(made.block_number)[Asset.SOL] == Decimal(held + 7_000_000).scaleb(-9)
    (submitter,) = solana.relayers()
    everything = solana.pay(submitter, f"{Decimal(held + 7_000_000).scaleb(-9):f}", Asset.SOL)
    assert solana.land(everything)[everything.tx].failure is None
    assert solana.held(Asset.SOL) == 0
    solana.deposit((Asset.SOL, b"agent-7", held))


def test_a_deposit_with_two_names_or_none_names_nobody(solana):
    made = [solana.deposit_named(Asset.USDC, 10 + count, *([b"agent-7"] * count)) for count in (0, 2)]

    found = found_in(solana, made[0].block_number, made[-1].block_number)

    assert [(one.amount, one.named_agent) for one in found] == [(Decimal("0.00001"), ""), (Decimal("0.000012"), "")]
