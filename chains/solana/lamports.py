"""Read the lamports of accounts."""

from collections.abc import Sequence
from typing import Any

from chains.port import ChainUnavailable
from chains.rpc.agreement import confirmed_by_two
from chains.rpc.nodes import Nodes
from chains.solana.answers import CONFIRMED, accounts_calls, read_accounts


def read_lamports(nodes: Nodes, addresses: Sequence[str], *, quorum: int = 1) -> dict[str, int]:
    """Read the lamports of accounts, each confirmed by two nodes, or by the only one; a missing account has none.

    Raises:
        ChainUnavailable: fewer nodes than `quorum` know them.
    """
    if not addresses:
        return {}

    def read(answers: Sequence[Any]) -> dict[str, int]:
        found = read_accounts(answers, addresses)
        return {address: 0 if account is None else account.lamports for address, account in found.items()}

    replies = nodes.read_each(accounts_calls(addresses, {"dataSlice": {"offset": 0, "length": 0}, **CONFIRMED}), read)
    if len(replies) < quorum:
        raise ChainUnavailable("Too few nodes know the lamports of accounts.")
    return {address: confirmed_by_two(said[address] for said in replies) for address in addresses}
