"""Read the lamports of accounts."""

from collections.abc import Mapping, Sequence

from chains.rpc.transport import Call
from chains.solana.answers import CONFIRMED, Account, accounts_calls


def lamports_calls(addresses: Sequence[str]) -> list[Call]:
    """Return the calls for the lamports of accounts."""
    return accounts_calls(addresses, {"dataSlice": {"offset": 0, "length": 0}, **CONFIRMED})


def read_lamports(found: Mapping[str, Account | None]) -> dict[str, int]:
    """Read the lamports of accounts; a missing account has none."""
    return {address: 0 if account is None else account.lamports for address, account in found.items()}
