"""Read what a transaction says that it does: its instructions at the top level, one after the other. Pure.

They are the words of whoever signed it. What it has moved, only balances tell.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from solders.transaction import VersionedTransaction
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.token.constants import ASSOCIATED_TOKEN_PROGRAM_ID

from chains.solana.derivation import TOKEN_PROGRAMS

MEMO_PROGRAMS = (str(MEMO_PROGRAM_ID), "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo")
_TOKEN_PROGRAMS = tuple(map(str, TOKEN_PROGRAMS))
_ACCOUNT_PROGRAM = str(ASSOCIATED_TOKEN_PROGRAM_ID)
# The programs whose data are read.
READ_PROGRAMS = (*MEMO_PROGRAMS, *_TOKEN_PROGRAMS)
# What the data of the token programs' instructions begin with. Behind the number of a `TransferChecked` stand the
# amount, 8 bytes, the lowest first, and the decimals.
_TRANSFER_CHECKED, _SYNC_NATIVE = 12, 17
_TRANSFER_BYTES, _UNITS = 10, slice(1, 9)


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction at the top level; `data` is empty if it is of none of the `READ_PROGRAMS`."""

    program: str
    accounts: tuple[str, ...]
    data: bytes

    @property
    def memo(self) -> str | None:
        """The text of a memo; None: it is another instruction."""
        if self.program not in MEMO_PROGRAMS:
            return None
        # PostgreSQL holds no U+0000.
        return self.data.decode("utf-8", "replace").replace("\0", "\N{REPLACEMENT CHARACTER}")

    @property
    def sent_units(self) -> int | None:
        """The base units of a `TransferChecked`, out of its first account; None: it is another instruction."""
        is_transfer = self.program in _TOKEN_PROGRAMS and self.data[:1] == bytes([_TRANSFER_CHECKED])
        if not is_transfer or len(self.data) != _TRANSFER_BYTES or not self.accounts:
            return None
        return int.from_bytes(self.data[_UNITS], "little")

    @property
    def only_counts(self) -> bool:
        """Whether it only counts plain lamports as wrapped SOL."""
        return self.program in _TOKEN_PROGRAMS and self.data == bytes([_SYNC_NATIVE])


@dataclass(frozen=True, slots=True)
class NamedTransfer:
    """A transfer of base units with a memo right before it; `position` is the transfer's among the instructions."""

    position: int
    memo: str
    source: str
    units: int


def find_transfers(steps: Sequence[Step]) -> Iterator[NamedTransfer]:
    """Find the transfers that have a memo right before them, as those of payments do."""
    for position, (before, one) in enumerate(pairwise(steps), start=1):
        if before.memo is not None and one.sent_units is not None:
            yield NamedTransfer(position, before.memo, one.accounts[0], one.sent_units)


def read_steps(raw: bytes) -> list[Step]:
    """Read the instructions of a transaction that we have signed."""
    message = VersionedTransaction.from_bytes(raw).message
    keys = list(map(str, message.account_keys))
    return [
        Step(keys[one.program_id_index], tuple(keys[index] for index in one.accounts), bytes(one.data))
        for one in message.instructions
    ]


def find_makers(steps: Sequence[Step]) -> dict[str, str | None]:
    """Find the payments of a transaction of ours, by memo, each with the token account that it makes; None: none."""
    makers: dict[str, str | None] = {}
    made = None
    for one in steps:
        if one.program == _ACCOUNT_PROGRAM:
            made = one.accounts[1]
        elif one.memo is not None:
            makers[one.memo], made = made, None
    return makers
