"""Whose events those of an escrow's history are: each group of agents records its own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db import OperationalError

from chains.port import ChainUnavailable, DepositEvent, EscrowSearch
from foundation.groups import WHOLE, Group, any_group, every_group, group_if_known, snapshot, within
from payments.models import Payment


class GroupsAway(ChainUnavailable):
    """Events are of no group that can be asked: they may be of one whose node is away, and wait for it."""


@dataclass(frozen=True, slots=True)
class Part:
    """What is of a group. The last of all parts is what is of none, for any group to record."""

    group: Group
    found: EscrowSearch


def parts_of(chain: str, found: EscrowSearch) -> Sequence[Part]:
    """Split what was found in the history of an escrow.

    Raises:
        GroupsAway: a group could not be asked, and there is something that may be of it.
    """
    groups = every_group()
    if groups == (WHOLE,):
        return [Part(WHOLE, found)]
    parts, rest, is_any_away = [], found, False
    for group in groups:
        try:
            own, rest = _split(rest, group, chain)
        except OperationalError:
            is_any_away = True
            continue
        if own.deposits or own.outflows or own.voids:
            parts.append(Part(group, own))
    if is_any_away and (rest.outflows or rest.voids or any(_is_of_an_agent(one) for one in rest.deposits)):
        raise GroupsAway("What the escrow has done may be of a group whose node is away: its history waits for that.")
    return [*parts, Part(any_group(), rest)]


def _split(found: EscrowSearch, group: Group, chain: str) -> tuple[EscrowSearch, EscrowSearch]:
    """Split what is of a group from the rest: payments by their ids in the escrow, deposits by the agents they name."""
    ids = {one.escrow_id for one in found.outflows} | {one.escrow_id for one in found.voids}
    with within(group), snapshot():
        known = set(Payment.objects.filter(chain=chain, escrow_id__in=ids).values_list("escrow_id", flat=True))
    own, rest = (
        replace(
            found,
            deposits=[one for one in found.deposits if (group_if_known(one.named_agent) == group) is is_own],
            outflows=[one for one in found.outflows if (one.escrow_id in known) is is_own],
            voids=[one for one in found.voids if (one.escrow_id in known) is is_own],
        )
        for is_own in (True, False)
    )
    return own, rest


def _is_of_an_agent(one: DepositEvent) -> bool:
    return group_if_known(one.named_agent) is not None
