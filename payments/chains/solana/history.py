"""What one node knows of the transactions that touch accounts, page by page, the newest first."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from payments.chains.base import ChainUnavailable
from payments.chains.nodes import Nodes
from payments.chains.solana.answers import CONFIRMED, FINALIZED, read_count, read_tx
from payments.chains.transport import Call

# What was looked for is mostly among the newest; otherwise pages as long as nodes give them.
_FIRST_PAGE, _PAGE = 20, 1_000
# After so many pages a walk ends; another one goes on where it was.
_MOST_PAGES = 1_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A final transaction that touches an account, whether it succeeded or not."""

    tx: str
    slot: int
    has_failed: bool


@dataclass(frozen=True, slots=True)
class _Anchor:
    """Two neighbours among an account's transactions: behind the one, the other follows."""

    slot: int
    before: str
    follows: str


@dataclass(slots=True)
class Walk:
    """A walk through the transactions of an account, down from a slot: what was found there, the newest first.

    `above`: the oldest one that was seen above that slot; None: none was.
    """

    account: str
    down_from: int
    anchor: _Anchor | None
    entries: list[Entry] = field(default_factory=list)
    above: Entry | None = None
    is_done: bool = False
    _last: str | None = None

    @property
    def call(self) -> Call:
        before = self._last or (self.anchor and self.anchor.before)
        options: dict[str, Any] = {"limit": _PAGE if before else _FIRST_PAGE, **FINALIZED}
        # A node that is not so far refuses, instead of leaving out the newest.
        options |= {"minContextSlot": self.down_from} | ({"before": before} if before else {})
        return ("getSignaturesForAddress", self.account, options)

    @property
    def nearest(self) -> Entry | None:
        """The newest transaction up to that slot, or else the oldest one above it; None: there is none at all."""
        return self.entries[0] if self.entries else self.above

    def take(self, page: Sequence[Entry], down_to: int) -> None:
        """Take the next page, until one comes that is below `down_to`, or no more come."""
        if self._last is None and self.anchor and (not page or page[0].tx != self.anchor.follows):
            # Asked for what comes behind a transaction that it does not know, a node says that nothing does.
            raise ChainUnavailable("A node does not know any more what it told of before.")
        for entry in page:
            if entry.slot > self.down_from:
                self.above = entry
            elif not self.is_done:
                self.entries.append(entry)
                self.is_done = entry.slot < down_to
        self.is_done = self.is_done or not page
        self._last = page[-1].tx if page else self._last


class History:
    """What one node knows. It remembers where pages ended, so that going up from long ago does not start at the top."""

    def __init__(self, node: Nodes) -> None:
        self.node = node
        self._anchors: dict[str, dict[int, _Anchor]] = {}

    def walk(self, accounts: Sequence[str], *, down_from: int, down_to: int) -> list[Walk]:
        """Find the final transactions of accounts from one slot down to another, and the one before them.

        Raises:
            ChainUnavailable: the node does not answer, is behind, has forgotten, or does not come to an end.
        """
        walks = [Walk(account, down_from, self._anchor(account, down_from)) for account in accounts]
        for _ in range(_MOST_PAGES):
            open_ones = [walk for walk in walks if not walk.is_done]
            if not open_ones:
                return walks
            pages = self.node.read([walk.call for walk in open_ones], _read_pages)
            for walk, page in zip(open_ones, pages, strict=True):
                try:
                    walk.take(page, down_to)
                except ChainUnavailable:
                    self._anchors.pop(walk.account, None)
                    raise
                self._remember(walk.account, page)
        raise ChainUnavailable("There are too many transactions to go through at once.")

    def _anchor(self, account: str, down_from: int) -> _Anchor | None:
        """Find the lowest place above a slot where a page ended; those below are not needed again."""
        known = {slot: anchor for slot, anchor in self._anchors.get(account, {}).items() if slot > down_from}
        self._anchors[account] = known
        return known[min(known)] if known else None

    def _remember(self, account: str, page: Sequence[Entry]) -> None:
        if len(page) >= _FIRST_PAGE:
            before, follows = page[-2:]
            self._anchors[account][before.slot] = _Anchor(before.slot, before.tx, follows.tx)


def find_oldest_slot(node: Nodes, account: str) -> int | None:
    """Find the slot of the first transaction that touches an account; None: no node knows of any.

    Raises:
        ChainUnavailable: no node answers.
    """
    oldest: Entry | None = None
    while True:
        options: dict[str, Any] = {"limit": _PAGE, **CONFIRMED} | ({"before": oldest.tx} if oldest else {})
        (page,) = node.read([("getSignaturesForAddress", account, options)], _read_pages)
        if not page:
            return None if oldest is None else oldest.slot
        oldest = page[-1]


def _read_pages(answers: Sequence[Any]) -> list[list[Entry]]:
    pages = [[_read_entry(one) for one in answer] for answer in answers]
    for page in pages:
        if any(older.slot > newer.slot for newer, older in pairwise(page)):
            raise ValueError("not the newest first")
    return pages


def _read_entry(one: Any) -> Entry:
    return Entry(read_tx(one["signature"]), read_count(one["slot"]), one["err"] is not None)
