"""Make the agents of a file, chunk by chunk: what is interrupted is finished by another run."""

import csv
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import TextIO

from django.core.management.base import CommandError
from django.db import transaction

from foundation.groups import Group, group_of, within
from foundation.kernel.assets import Asset
from payments.funding.credits import fund_agents, require_surplus
from payments.funding.expected_holdings import sum_of
from payments.management.agent_file import NewAgent
from payments.management.movement_options import find_chain_to_credit
from policy.key_operations import create_api_key
from policy.operations import create_agent
from policy.parents import lock_to_add

# Each chunk is one transaction, with the credits of its agents and their keys. The payments of a tree wait for one that
# adds to it.
_CHUNK, _CHUNK_IN_TREES = 250, 25
# The agents to be funded in an asset out of a chain (CAIP-2), with their amounts.
Credits = dict[tuple[Asset, str], dict[str, Decimal]]


def make_agents(
    new: Sequence[NewAgent], *, keys: TextIO | None, by: str, reason: str, report: Callable[[int], None]
) -> dict[str, Decimal]:
    """Make agents with their first money, and a key for each if there is a file for them; returns the sums by asset.

    `report` gets how many are made so far.

    Raises:
        OperationRefused: the surplus does not cover the sum of all, in which case nothing is made; or an agent was made
            meanwhile, or the surplus has shrunk: earlier chunks stay.
    """
    chains = _choose_chains(new)
    whole = _collect(new, chains)
    with transaction.atomic():
        _require_surplus(whole)
    size, made = _CHUNK if all(one.limits.more.parent is None for one in new) else _CHUNK_IN_TREES, 0
    for group, of_group in _by_group(new).items():
        for first in range(0, len(of_group), size):
            chunk = of_group[first : first + size]
            with within(group), transaction.atomic():
                _make(chunk, _collect(chunk, chains), keys, by=by, reason=reason)
            made += len(chunk)
            report(made)
    sums: defaultdict[str, Decimal] = defaultdict(Decimal)
    for (asset, _), amounts in whole.items():
        sums[asset] = sum_of(sums[asset], *amounts.values())
    return dict(sums)


def _by_group(new: Sequence[NewAgent]) -> dict[Group, list[NewAgent]]:
    """Sort agents by the groups that they will be of, each with the root of its tree, which may be of the same file."""
    above = {one.id: one.limits.more.parent for one in new}
    found: dict[Group, list[NewAgent]] = {}
    for one in new:
        root = one.id
        while (parent := above.get(root)) is not None:
            root = parent
        found.setdefault(group_of(root), []).append(one)
    return found


@contextmanager
def open_key_file(path: str | None) -> Iterator[TextIO | None]:
    """Make a file for keys that only its owner may read; None: no file is wanted.

    Raises:
        CommandError: there is such a file already, or it cannot be made.
    """
    if path is None:
        yield None
        return
    try:
        opened = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except OSError as error:
        raise CommandError(f"--keys: {error}") from error
    with os.fdopen(opened, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerow(["id", "apiKey"])
        yield file


def _choose_chains(new: Sequence[NewAgent]) -> dict[tuple[Asset, str | None], str]:
    """Compare the escrows with the ledger, and choose the chain of the credits that do not name one."""
    # Before any transaction: nobody may have to wait for an answer of the nodes.
    wanted = {(one.asset, one.chain) for one in new if one.fund is not None}
    return {(asset, chain): find_chain_to_credit(chain, asset) for asset, chain in sorted(wanted, key=str)}


def _collect(new: Sequence[NewAgent], chains: dict[tuple[Asset, str | None], str]) -> Credits:
    found: Credits = {}
    for one in new:
        if one.fund is not None:
            found.setdefault((one.asset, chains[one.asset, one.chain]), {})[one.id] = one.fund
    return dict(sorted(found.items()))


def _require_surplus(credits_: Credits) -> None:
    sums = {place: sum_of(*amounts.values()) for place, amounts in credits_.items()}
    for (asset, chain), amount in sums.items():
        others = (other for place, other in sums.items() if place[0] == asset and place[1] != chain)
        require_surplus(asset, chain, amount, besides=sum_of(*others))


def _make(chunk: Sequence[NewAgent], credits_: Credits, keys: TextIO | None, *, by: str, reason: str) -> None:
    # Before the agents above are locked, as whoever funds one of those does.
    _require_surplus(credits_)
    if parents := {one.limits.more.parent for one in chunk if one.limits.more.parent is not None}:
        lock_to_add(parents)  # in the order of payments, whatever that of the lines is
    for one in chunk:
        create_agent(one.id, asset=one.asset, limits=one.limits, by=by, reason=reason)
    for (asset, chain), amounts in credits_.items():
        fund_agents(amounts, asset=asset, chain=chain, by=by, reason=reason)
    if keys is not None:
        made = [(one.id, create_api_key(by=by, agent_id=one.id, reason=reason)[1]) for one in chunk]
        # Before the commit: a key that is not in force does no harm, one that nobody has cannot be shown again.
        csv.writer(keys).writerows(made)
        keys.flush()
        os.fsync(keys.fileno())
