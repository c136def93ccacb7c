"""Whose the escrow is: what no release passes by, although payments go on; and how far one node says the chain is.

The rest: `tests/chains/adapter`.
"""

from dataclasses import replace
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_utils.address import to_checksum_address

from chains.evm.configuration_check import ESCROW_DOMAIN, Contracts, Expected, Inspection, Roles
from chains.evm.inspection import inspect
from tests.support.evm_escrow import call
from tests.support.fake_nodes import Node, Truth, tell, word

ESCROW, SIGNER, RELAYER, OWNER, OTHER = (to_checksum_address("0x" + two * 20) for two in ("e5", "51", "e1", "0a", "ab"))
ZERO = "0x" + "0" * 40


def inspection(owner: str, expected: str | None = None) -> Inspection:
    roles = Roles(SIGNER, (RELAYER,))
    contracts = Contracts(
        newest_block=9, has_escrow=True, domain=ESCROW_DOMAIN, policy_signer=SIGNER, owner=owner, is_paused=False,
        enabled_relayers=frozenset({RELAYER}), tokens=(),
    )  # fmt: skip
    return Inspection(Expected(1, ESCROW, {}, roles, owner=expected), (1,), contracts)


@pytest.mark.parametrize("expected", [None, OWNER])
def test_an_escrow_of_the_configured_owner_or_of_whomever_it_names_is_ours(expected: str | None) -> None:
    assert inspection(OWNER, expected).find_foreign() == []


@pytest.mark.parametrize(
    ("owner", "expected", "said"),
    [
        (OTHER, OWNER, f"The escrow's owner is {OTHER}, not {OWNER}."),
        (ZERO, None, "The escrow's owner is nobody"),
        (ZERO, OWNER, f"The escrow's owner is {ZERO}, not {OWNER}."),
        (RELAYER, None, f"The escrow's owner is {RELAYER}, a key of our processes"),
        (SIGNER, SIGNER, f"The escrow's owner is {SIGNER}, a key of our processes"),
    ],
)
def test_an_escrow_of_another_owner_of_nobody_or_of_a_process_is_released_by_nobody_and_pays_on(
    owner: str, expected: str | None, said: str
) -> None:
    found = inspection(owner, expected)

    (sentence,) = found.find_foreign()
    assert sentence.startswith(said)
    assert found.find_mismatches() == []


DOMAIN = "0x" + encode(["bytes1", "string", "string"], [b"\x0f", *ESCROW_DOMAIN]).hex()


def of_escrow(wanted: dict[str, str], _block: str) -> str:
    return DOMAIN if wanted["data"] == call("eip712Domain()") else word(1)


@pytest.mark.parametrize("newest", [0, 10**6])
def test_how_far_the_chain_is_is_not_what_one_node_says_that_tells_the_truth_of_all_else(
    nodes: list[Node], truth: Truth, liar: int, newest: int
) -> None:
    contracts: dict[str, Any] = {"eth_getCode": "0x60", "eth_call": of_escrow}
    chain = tell(nodes, truth, liar, **contracts, eth_blockNumber=hex(newest))
    for node in nodes:
        node.answers |= contracts
    begun = replace(chain.inspector.expect([]), first_block=truth.head)

    assert inspect(chain.inspector.singles, begun).find_mismatches() == []
    (sentence,) = inspect(chain.inspector.singles, replace(begun, first_block=truth.head + 1)).find_mismatches()
    assert sentence == f"The escrow's first block is said to be {truth.head + 1}; the newest is {truth.head}."


def test_how_far_the_chain_is_is_what_the_only_node_says(nodes: list[Node], truth: Truth) -> None:
    chain = tell(nodes[:1], truth, 0, eth_getCode="0x60", eth_call=of_escrow, eth_blockNumber="0x3")

    (sentence,) = inspect(chain.inspector.singles, replace(chain.inspector.expect([]), first_block=4)).find_mismatches()
    assert sentence == "The escrow's first block is said to be 4; the newest is 3."
