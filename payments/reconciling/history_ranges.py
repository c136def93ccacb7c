"""Search the escrow's history range by range: as much at once as nodes tell of, and as can be recorded at once."""

import time
from collections.abc import Callable, Iterator, Sequence

from chains.port import ChainAdapter, ChainUnavailable, EscrowSearch
from payments.lifecycle import SettlementState
from payments.models import Settlement

# The first range of a run, in blocks; later ones are longer. Nodes limit the range, the number of events, or the time.
FIRST_LENGTH = 32
LONGEST = 2048
# The most that one transaction records: meanwhile, the agents concerned cannot pay and their payments cannot end.
MOST_AT_ONCE = 200
MOST_OUTFLOWS_AT_ONCE = 1_000
# A run ends after this, however many blocks are left; the next run goes on.
LONGEST_RUN_S = 10


def search_ranges(
    find: Callable[[int, int], EscrowSearch],
    after: int,
    final: int,
    *,
    length: int = FIRST_LENGTH,
    longest_run_s: float = LONGEST_RUN_S,
) -> Iterator[tuple[int, int, EscrowSearch]]:
    """Search the blocks behind `after` up to `final`, range by range; yields (block before, last, events).

    The first range is of `length` blocks. One that the nodes refuse is halved, down to one block. No range is begun
    after `longest_run_s`.
    """
    searched, end = after, time.monotonic() + longest_run_s
    while searched < final and time.monotonic() < end:
        last = min(searched + length, final)
        try:
            found = find(searched + 1, last)
        except ChainUnavailable:
            if last == searched + 1:
                raise
            length = (last - searched) // 2
            continue
        yield searched, last, found
        searched, length = last, min(2 * length, LONGEST)


def find_events(adapter: ChainAdapter, first: int, last: int) -> EscrowSearch:
    """Find what the escrow's history has in a range of final blocks.

    Raises:
        ChainUnavailable: the nodes cannot tell, contradict each other, or tell of too much to be recorded at once.
    """
    found = adapter.escrow.search(first, last, _find_ours)
    if any(not first <= number <= last for number in found.block_numbers()):
        raise ChainUnavailable("A node returned blocks that it was not asked for.")
    is_too_much = len(found.deposits) > MOST_AT_ONCE or len(found.outflows) > MOST_OUTFLOWS_AT_ONCE
    if is_too_much and first < last:
        raise ChainUnavailable("The range contains too many events to record at once.")
    return found


def _find_ours(txs: Sequence[str]) -> set[str]:
    """Return those of the transactions that are known to have paid; the adapter inspects all others."""
    final = Settlement.objects.filter(pk__in=txs, state=SettlementState.FINAL)
    return set(final.values_list("pk", flat=True))
