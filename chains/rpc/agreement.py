"""Choose what nodes agree on. Pure.

Where there are several nodes, a single one is not believed when money depends on it. What more than half of the nodes
that replied say is taken, if at least `quorum` of them say so: one liar of three neither misleads nor stops anything.

Money is given back only on what *all* nodes that replied say: two of three that lie alike can settle and credit what is
not so, but give nothing back while the third one answers. The places where this counts:

- an escrow has not paid an id, a token has not seen an authorization used (`chains.evm.proving`);
- the chain's final time is past a deadline (`Finality.time_by_all`, for `settling.unpaid` and
  `settling.expired_authorizations`);
- a transaction on Solana failed, or is in no block and never will be (`chains.solana.proving`, for
  `settling.confirming`, and for `settling.renewal`, where signing again too early would pay twice);
- the escrow's history has a void, or lacks a payment (`EscrowSearch.is_disputed`: for `reconciling.outflows`,
  `settling.next_states`, `funding.owner_transactions` and the escrows of earlier keys).

What a person gives back (`reconciling.outflow_booking`), no node decides.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def is_agreed(value: T, said: Sequence[T], quorum: int) -> bool:
    """Return whether more than half of the nodes that replied say this, and at least `quorum`."""
    count = sum(one == value for one in said)
    return count >= quorum and 2 * count > len(said)


def find_agreed(said: Sequence[T], quorum: int) -> T | None:
    """Find the value that nodes agree on; None: there is none."""
    return next((one for one in said if is_agreed(one, said, quorum)), None)


def are_outvoted(few: int, replied: int) -> bool:
    """Return whether more than half of the nodes that replied, and at least two, say otherwise than these few."""
    others = replied - few
    return others > 1 and 2 * others > replied


def is_unanimous(said: Sequence[T], quorum: int) -> bool:
    """Return whether all nodes that replied say the same, and at least `quorum` replied."""
    return len(said) >= quorum and all(one == said[0] for one in said)


def find_outvoted(said: Sequence[T | None]) -> list[int]:
    """Find who says otherwise than `most_common`, by position, if they are outvoted; None: nothing was said."""
    replied = [one for one in said if one is not None]
    agreed = most_common(replied) if replied else None
    others = [position for position, one in enumerate(said) if one not in (None, agreed)]
    return others if are_outvoted(len(others), len(replied)) else []


def most_common(said: Sequence[T]) -> T:
    """Return what most nodes say; of what as many say, the first. Nobody is paid by it: it may be one node's word."""
    return max(said, key=said.count)


def is_seen(there: int, replied: int, *, was_seen: bool) -> bool:
    """Return whether a transaction counts as seen in a block, by how many of the nodes that replied have it in one.

    At least half of them must: neither can one node hide it, nor make one up that then nobody sends again. One that was
    seen before is there as long as any node has it: others may keep less history. It is a hint, and ends nothing.
    """
    return there > 0 and (was_seen or 2 * there >= replied)


def confirmed_by_two(said: Iterable[int]) -> int:
    """Return the second-highest value, or the only one: a single liar cannot raise it above an honest value."""
    return sorted(said, reverse=True)[:2][-1]
