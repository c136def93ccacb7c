"""Read final transactions from the answers of nodes: balances before and after, and the instructions. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from base58 import b58decode

from chains.rpc.transport import Call
from chains.solana.answers import FINALIZED, read_address, read_amount, read_count, read_tx, read_units
from chains.solana.steps import READ_PROGRAMS, Step


@dataclass(frozen=True, slots=True)
class Balances:
    """The balances of a transaction's accounts at one moment: lamports, and tokens (mint, base units) by index."""

    lamports: tuple[int, ...]
    tokens: Mapping[int, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction in a block. The first of its accounts pays the fee."""

    tx: str
    slot: int
    has_failed: bool
    accounts: tuple[str, ...]
    before: Balances
    after: Balances
    steps: tuple[Step, ...]

    @property
    def memos(self) -> list[str]:
        return [memo for one in self.steps if (memo := one.memo) is not None]

    @property
    def memo(self) -> str:
        """The memo, if there is exactly one: with several, it is unknown which one counts."""
        memos = self.memos
        return memos[0] if len(memos) == 1 else ""


def transaction_call(tx: str) -> Call:
    """Return the call for a final transaction."""
    return ("getTransaction", tx, {"encoding": "json", "maxSupportedTransactionVersion": 0, **FINALIZED})


def read_transaction(answer: Any, tx: str) -> Transaction:
    """Read the transaction of this id. Raises `ValueError` and the like for a malformed answer."""
    message, meta = answer["transaction"]["message"], answer["meta"]
    if read_tx(answer["transaction"]["signatures"][0]) != tx:
        raise ValueError("another transaction")
    loaded = meta.get("loadedAddresses") or {"writable": [], "readonly": []}
    keys = [*message["accountKeys"], *loaded["writable"], *loaded["readonly"]]
    accounts = tuple(map(read_address, keys))
    return Transaction(
        tx=tx,
        slot=read_count(answer["slot"]),
        has_failed=meta["err"] is not None,
        accounts=accounts,
        before=_read_balances(meta["preBalances"], meta["preTokenBalances"], len(accounts)),
        after=_read_balances(meta["postBalances"], meta["postTokenBalances"], len(accounts)),
        steps=tuple(_read_step(one, accounts) for one in message["instructions"]),
    )


def _read_balances(balances: Any, tokens: Any, count: int) -> Balances:
    if len(balances) != count:
        raise ValueError("not a balance for each account")
    return Balances(
        tuple(map(read_units, balances)),
        {
            read_count(one["accountIndex"]): (read_address(one["mint"]), read_amount(one["uiTokenAmount"]["amount"]))
            for one in tokens
        },
    )


def _read_step(one: Any, accounts: Sequence[str]) -> Step:
    program = accounts[read_count(one["programIdIndex"])]
    named = tuple(accounts[read_count(index)] for index in one["accounts"])
    # A stranger's transaction can have data that take long to decode, and that nobody needs.
    return Step(program, named, b58decode(one["data"]) if program in READ_PROGRAMS else b"")
