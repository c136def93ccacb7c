"""Read from one node the transactions that touch accounts, page by page, the newest first."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from chains.port import ChainUnavailable
from chains.rpc.nodes import Nodes
from chains.rpc.transport import Call
from chains.solana.answers import CONFIRMED, FINALIZED, read_count, read_tx

# The transactions of a search are mostly among the newest; further pages are as long as nodes allow.
_FIRST_PAGE, _PAGE = 20, 1_000
# A walk ends after this number of pages; the next walk continues from there.
_MOST_PAGES = 1_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A final transaction that touches an account, whether it succeeded or not."""

    tx: str
    slot: int
    has_failed: bool


@dataclass(frozen=True, slots=True)
class _PageStart:
    """The start of the next page: the last two transactions of the page before.

    A node that does not know a transaction answers that nothing comes before it, and several nodes may share an
    address. So the next page is requested from before the newer of the two, and has to begin with the older one.
    """

    newer: Entry
    older: Entry


@dataclass(slots=True)
class Walk:
    """A walk down through the transactions of an account: `entries` up to `newest_slot`, the newest first.

    `page_start` is where the walk goes on. `above` is the oldest transaction that was seen after `newest_slot`; None:
    none was seen.
    """

    account: str
    newest_slot: int
    page_start: _PageStart | None
    entries: list[Entry] = field(default_factory=list)
    above: Entry | None = None
    is_done: bool = False
    _overlap: int = 0

    @property
    def call(self) -> Call:
        # A node that has not reached the slot refuses, instead of leaving out the newest transactions.
        return _page_call(
            self.account, self.page_start, self.newest_slot, _PAGE if self.page_start else _FIRST_PAGE, FINALIZED
        )

    @property
    def nearest(self) -> Entry | None:
        """The newest transaction up to `newest_slot`, or else the oldest one after it; None: there is none at all."""
        return self.entries[0] if self.entries else self.above

    def add_page(self, page: Sequence[Entry], oldest_slot: int) -> None:
        """Add the next page; the walk is done at a transaction before `oldest_slot`, or at the end of the history."""
        following = _find_next(self.page_start, page)
        for entry in page[self._overlap :]:
            if entry.slot > self.newest_slot:
                self.above = entry
            elif not self.is_done:
                self.entries.append(entry)
                self.is_done = entry.slot < oldest_slot
        self.is_done = self.is_done or following is None
        # A walk begins with the last entry of an earlier walk, which it needs; its later pages begin with one it has
        # already.
        self.page_start, self._overlap = following, 1


class History:
    """The history of one node. It remembers the ends of pages, so that a search of old slots starts near them."""

    def __init__(self, node: Nodes) -> None:
        self.node = node
        self._page_starts: dict[str, dict[int, _PageStart]] = {}

    def walk(self, accounts: Sequence[str], *, newest_slot: int, oldest_slot: int) -> list[Walk]:
        """Find the final transactions of accounts from one slot down to another, and the one before them.

        Raises:
            ChainUnavailable: the node does not answer, is behind, has lost history, or there are too many transactions.
        """
        walks = [Walk(account, newest_slot, self._find_page_start(account, newest_slot)) for account in accounts]
        for _ in range(_MOST_PAGES):
            open_ones = [walk for walk in walks if not walk.is_done]
            if not open_ones:
                return walks
            pages = self.node.read([walk.call for walk in open_ones], _read_pages)
            for walk, page in zip(open_ones, pages, strict=True):
                try:
                    walk.add_page(page, oldest_slot)
                except ChainUnavailable:
                    self._page_starts.pop(walk.account, None)
                    raise
                self._remember(walk, page)
        raise ChainUnavailable("There are too many transactions to read at once.")

    def _find_page_start(self, account: str, newest_slot: int) -> _PageStart | None:
        """Find the lowest known start of a page above a slot; forget those below, which are not needed again."""
        known = {
            slot: page_start for slot, page_start in self._page_starts.get(account, {}).items() if slot > newest_slot
        }
        self._page_starts[account] = known
        return known[min(known)] if known else None

    def _remember(self, walk: Walk, page: Sequence[Entry]) -> None:
        if walk.page_start is not None and len(page) >= _FIRST_PAGE:
            self._page_starts[walk.account][walk.page_start.newer.slot] = walk.page_start


def find_oldest_slot(node: Nodes, account: str) -> int | None:
    """Find the slot of the first transaction that touches an account; None: no node knows one.

    Raises:
        ChainUnavailable: no node answers, a node has lost history, or there are too many transactions.
    """
    page_start: _PageStart | None = None
    for _ in range(_MOST_PAGES):
        (page,) = node.read([_page_call(account, page_start, 0, _PAGE, CONFIRMED)], _read_pages)
        page_start = _find_next(page_start, page)
        if page_start is None:
            return page[-1].slot if page else None
    raise ChainUnavailable("There are too many transactions to read at once.")


def _page_call(account: str, page_start: _PageStart | None, slot: int, limit: int, commitment: dict[str, Any]) -> Call:
    """Return the call for the page at `page_start`, or else the newest, from a node that has reached `slot`."""
    options: dict[str, Any] = {"limit": limit, "minContextSlot": slot, **commitment}
    if page_start is not None:
        options |= {"before": page_start.newer.tx, "minContextSlot": max(slot, page_start.newer.slot)}
    return ("getSignaturesForAddress", account, options)


def _find_next(page_start: _PageStart | None, page: Sequence[Entry]) -> _PageStart | None:
    """Find the start of the page after `page`, which began at `page_start` or with the newest; None: there is none.

    A page is the last one if it has one entry at most: the one that it has to begin with, or the newest.
    """
    if page_start is not None and (not page or page[0] != page_start.older):
        raise ChainUnavailable("A node no longer knows a transaction that it returned before.")
    return _PageStart(*page[-2:]) if len(page) > 1 else None


def _read_pages(answers: Sequence[Any]) -> list[list[Entry]]:
    pages = [[_read_entry(one) for one in answer] for answer in answers]
    for page in pages:
        if any(older.slot > newer.slot for newer, older in pairwise(page)):
            raise ValueError("not the newest first")
    return pages


def _read_entry(one: Any) -> Entry:
    return Entry(read_tx(one["signature"]), read_count(one["slot"]), one["err"] is not None)
