"""The search for deposits on a Solana chain."""

from typing import Any

from tests.support.deposits import none_of_ours
from tests.support.fake_solana_nodes import FINAL


def find(chain: Any, first: int = 1, last: int = FINAL) -> list[Any]:
    """Find deposits: slot, named agent, amount."""
    found = chain.escrow.search(first, last, none_of_ours).deposits
    return [(one.block_number, one.named_agent, one.amount) for one in found]
