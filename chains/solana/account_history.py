"""What one node knows of the transactions that touch accounts, page by page, the newest first."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from chains.port import ChainUnavailable
from chains.rpc.nodes import Nodes
from chains.rpc.transport import Call
from chains.solana.answers import CONFIRMED, FINALIZED, read_count, read_tx

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
class _Place:
    """Two neighbours among an account's transactions, of which a page ends with the older.

    Asked for what comes behind a transaction that it does not know, a node says that nothing does, and it may be one of
    several behind the same address. So the next page begins behind the newer one, and has to begin with the older.
    """

    newer: Entry
    older: Entry


@dataclass(slots=True)
class Walk:
    """A walk through the transactions of an account, down from a slot: what was found there, the newest first.

    `place` is where to go on. `above`: the oldest one that was seen above that slot; None: none was.
    """

    account: str
    down_from: int
    place: _Place | None
    entries: list[Entry] = field(default_factory=list)
    above: Entry | None = None
    is_done: bool = False
    _overlap: int = 0

    @property
    def call(self) -> Call:
        # A node that is not so far refuses, instead of leaving out the newest.
        return _page_call(self.account, self.place, self.down_from, _PAGE if self.place else _FIRST_PAGE, FINALIZED)

    @property
    def nearest(self) -> Entry | None:
        """The newest transaction up to that slot, or else the oldest one above it; None: there is none at all."""
        return self.entries[0] if self.entries else self.above

    def take(self, page: Sequence[Entry], down_to: int) -> None:
        """Take the next page, until one comes that is below `down_to`, or no more come."""
        following = _find_next(self.place, page)
        for entry in page[self._overlap :]:
            if entry.slot > self.down_from:
                self.above = entry
            elif not self.is_done:
                self.entries.append(entry)
                self.is_done = entry.slot < down_to
        self.is_done = self.is_done or following is None
        # What another walk ended with, this one begins with; from then on each page begins with what it has.
        self.place, self._overlap = following, 1


class History:
    """What one node knows. It remembers where pages ended, so that going up from long ago does not start at the top."""

    def __init__(self, node: Nodes) -> None:
        self.node = node
        self._places: dict[str, dict[int, _Place]] = {}

    def walk(self, accounts: Sequence[str], *, down_from: int, down_to: int) -> list[Walk]:
        """Find the final transactions of accounts from one slot down to another, and the one before them.

        Raises:
            ChainUnavailable: the node does not answer, is behind, has forgotten, or does not come to an end.
        """
        walks = [Walk(account, down_from, self._find_place(account, down_from)) for account in accounts]
        for _ in range(_MOST_PAGES):
            open_ones = [walk for walk in walks if not walk.is_done]
            if not open_ones:
                return walks
            pages = self.node.read([walk.call for walk in open_ones], _read_pages)
            for walk, page in zip(open_ones, pages, strict=True):
                try:
                    walk.take(page, down_to)
                except ChainUnavailable:
                    self._places.pop(walk.account, None)
                    raise
                self._remember(walk, page)
        raise ChainUnavailable("There are too many transactions to go through at once.")

    def _find_place(self, account: str, down_from: int) -> _Place | None:
        """Find the lowest place above a slot where a page ended; those below are not needed again."""
        known = {slot: place for slot, place in self._places.get(account, {}).items() if slot > down_from}
        self._places[account] = known
        return known[min(known)] if known else None

    def _remember(self, walk: Walk, page: Sequence[Entry]) -> None:
        if walk.place is not None and len(page) >= _FIRST_PAGE:
            self._places[walk.account][walk.place.newer.slot] = walk.place


def find_oldest_slot(node: Nodes, account: str) -> int | None:
    """Find the slot of the first transaction that touches an account; None: no node knows of any.

    Raises:
        ChainUnavailable: no node answers, has forgotten, or does not come to an end.
    """
    place: _Place | None = None
    for _ in range(_MOST_PAGES):
        (page,) = node.read([_page_call(account, place, 0, _PAGE, CONFIRMED)], _read_pages)
        place = _find_next(place, page)
        if place is None:
            return page[-1].slot if page else None
    raise ChainUnavailable("There are too many transactions to go through at once.")


def _page_call(account: str, place: _Place | None, slot: int, limit: int, commitment: dict[str, Any]) -> Call:
    """Ask for what comes behind a place, or else for the newest, of a node that has `slot`, and the place."""
    options: dict[str, Any] = {"limit": limit, "minContextSlot": slot, **commitment}
    if place is not None:
        options |= {"before": place.newer.tx, "minContextSlot": max(slot, place.newer.slot)}
    return ("getSignaturesForAddress", account, options)


def _find_next(place: _Place | None, page: Sequence[Entry]) -> _Place | None:
    """Find where to go on after a page that was to begin at a place, or with the newest; None: no more come.

    That is so where there is nothing behind the older one of the place, and where the newest is the only one, or none.
    """
    if place is not None and (not page or page[0] != place.older):
        raise ChainUnavailable("A node does not know any more what it told of before.")
    return _Place(*page[-2:]) if len(page) > 1 else None


def _read_pages(answers: Sequence[Any]) -> list[list[Entry]]:
    pages = [[_read_entry(one) for one in answer] for answer in answers]
    for page in pages:
        if any(older.slot > newer.slot for newer, older in pairwise(page)):
            raise ValueError("not the newest first")
    return pages


def _read_entry(one: Any) -> Entry:
    return Entry(read_tx(one["signature"]), read_count(one["slot"]), one["err"] is not None)
