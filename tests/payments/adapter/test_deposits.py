"""The escrow's deposits, as its events tell them."""

from decimal import Decimal

import pytest

from allowance.kernel.assets import Asset
from payments.chains.base import ChainUnavailable
from tests.deposits import none_of_ours


def block_of(receipt):
    return int(receipt["blockNumber"], 16)


def test_deposits_of_a_range_are_found_in_order_with_what_arrived(chain):
    usdc, eurc = chain.tokens[Asset.USDC], chain.tokens[Asset.EURC]
    made = [
        (usdc, b"agent-7", 1_250_000),
        (eurc, b"agent-8", 1),
        (chain.unserved_token, b"agent-7", 77),
        (usdc, b"agent-7", 2_000_000),
    ]
    receipts = chain.deposit(*made)

    found = chain.adapter().find_deposits(block_of(receipts[0]), block_of(receipts[-1]), none_of_ours)

    assert [(one.token, one.asset, one.amount, one.named_agent) for one in found] == [
        (usdc, Asset.USDC, Decimal("1.25"), "agent-7"),
        (eurc, Asset.EURC, Decimal("0.000001"), "agent-8"),
        (chain.unserved_token, None, Decimal(77), "agent-7"),
        (usdc, Asset.USDC, Decimal(2), "agent-7"),
    ]
    assert [one.tx for one in found] == [receipt["transactionHash"].lower() for receipt in receipts]
    assert [one.block_number for one in found] == [block_of(receipt) for receipt in receipts]
    assert {one.depositor for one in found} == {chain.owner.address}
    assert len({(one.tx, one.log_index) for one in found}) == len(made)


@pytest.mark.parametrize(
    ("text", "named_agent"),
    [
        (b"\xff\x00agent\x80", "\N{REPLACEMENT CHARACTER}" * 2 + "agent" + "\N{REPLACEMENT CHARACTER}"),
        ("агент 🤖".encode(), "агент 🤖"),
        (b"\xed\xa0\x80", "\N{REPLACEMENT CHARACTER}" * 3),
        (b"x" * 1024, "x" * 1024),
        (b" ", " "),
    ],
    ids=["no text", "not ASCII", "half a surrogate pair", "longest", "blank"],
)
def test_a_deposit_may_name_its_agent_in_any_bytes(chain, text, named_agent):
    (receipt,) = chain.deposit((chain.tokens[Asset.USDC], text, 5))

    (deposit,) = chain.adapter().find_deposits(block_of(receipt), block_of(receipt), none_of_ours)

    assert (deposit.named_agent, deposit.amount) == (named_agent, Decimal("0.000005"))


def test_deposits_outside_of_the_range_are_not_found(chain):
    (receipt,) = chain.deposit((chain.tokens[Asset.USDC], b"agent-7", 5))
    number = block_of(receipt)
    chain.mine()
    adapter = chain.adapter()

    assert adapter.find_deposits(number - 1, number - 1, none_of_ours) == []
    assert adapter.find_deposits(number + 1, number + 1, none_of_ours) == []
    assert len(adapter.find_deposits(number - 1, number + 1, none_of_ours)) == 1


def test_a_range_that_the_node_does_not_have_yet_is_not_concluded_from(chain):
    with pytest.raises(ChainUnavailable):
        chain.adapter().find_deposits(chain.height, chain.height + 1_000, none_of_ours)
