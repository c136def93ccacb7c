"""Read a file of agents to make: CSV with a header. Every line that is wrong is named before anything is made."""

from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from django.core.management.base import CommandError

from chains.catalogue import find_chain
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from payments.funding.credits import check_chain
from payments.management.agent_rows import Problem, name_problems, read_asset_and_limits, read_cell, read_lines
from policy.agent_ids import find_same, taken_for, written_plainly
from policy.limit_texts import are_same
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.operations import check_new_agent
from policy.parents import place_under
from policy.revisions import limits_of

_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class NewAgent:
    """An agent to be made, from a line of the file. `chain` (CAIP-2) is where its first money is; None: not said."""

    line: int
    id: str
    asset: Asset
    limits: Limits
    fund: Decimal | None = None
    chain: str | None = None


@dataclass(frozen=True, slots=True)
class AgentFile:
    """The agents of a file that are to be made, and the ids of those that exist with the same policy already."""

    new: list[NewAgent]
    unchanged: list[str]


def read_agent_file(path: str) -> AgentFile:
    """Read and check a file, and compare it with the agents that exist.

    Raises:
        CommandError: it cannot be read, or names every line that is wrong, with the reason.
    """
    problems: list[Problem] = []
    rows: list[NewAgent] = []
    wrong: set[str] = set()
    for line, cells in read_lines(path, named="--from"):
        try:
            rows.append(_read(line, cells))
        except (OperationRefused, ValueError) as error:
            problems.append((line, str(error)))
            wrong.add(cells["id"])
    existing = _find_existing([row.id for row in rows])
    problems += _find_repeated(rows, existing)
    problems += _find_misplaced(rows, existing, wrong)
    same = find_same(row.id for row in rows if row.id not in existing)
    problems += [(row.line, taken_for(row.id, same[row.id])) for row in rows if row.id in same]
    problems += [
        (row.line, f"There is an agent {row.id} already, with another asset or policy: set_policy changes it.")
        for row in rows
        if row.id in existing and not _is_same(row, *existing[row.id])
    ]
    if problems:
        raise CommandError(name_problems("No agent was made. What is wrong with the file:", problems))
    return AgentFile([row for row in rows if row.id not in existing], [row.id for row in rows if row.id in existing])


def _read(line: int, cells: Mapping[str, str]) -> NewAgent:
    """Read one line; raises `OperationRefused` or `ValueError` with a reason."""
    asset, limits = read_asset_and_limits(cells)
    check_new_agent(cells["id"], asset, limits)
    fund = read_cell(cells, "fund", asset, allow_zero=False) if cells.get("fund") else None
    return NewAgent(line, cells["id"], asset, limits, fund, _chain(cells.get("chain", ""), asset))


def _chain(name: str, asset: Asset) -> str | None:
    if not name:
        return None
    chain = find_chain(name)
    if chain is None:
        raise ValueError(f"chain: There is no chain {name}.")
    check_chain(chain.caip2, asset)
    return chain.caip2


def _find_repeated(rows: list[NewAgent], existing: Container[str]) -> Iterator[Problem]:
    first: dict[str, NewAgent] = {}
    for row in rows:
        other = first.setdefault(written_plainly(row.id), row)
        if other is not row and (other.id == row.id or row.id not in existing):
            yield row.line, f"The agent {other.id} is in line {other.line} already."


def _find_misplaced(rows: list[NewAgent], existing: Container[str], wrong: Container[str]) -> Iterator[Problem]:
    """Find the lines whose agent cannot be under the parent that it names: one that exists, or is in an earlier line.

    `wrong` are in lines that are named already.
    """
    lines = {row.id: row.line for row in rows}
    known = _find_parents({row.limits.more.parent or "" for row in rows})
    for row in rows:
        parent, ancestors = row.limits.more.parent, None
        if row.id in existing:
            continue
        if parent in known:
            try:
                ancestors = place_under(known[parent], row.id, row.asset)
            except OperationRefused as error:
                yield row.line, f"parent: {error}"
        elif parent is not None and parent not in wrong:
            later = f" It is in line {lines[parent]}: put that line before this one." if parent in lines else ""
            yield row.line, f"parent: There is no agent {parent}.{later}"
        known.setdefault(row.id, Agent(id=row.id, asset=row.asset, ancestors=ancestors))


def _find_parents(ids: Collection[str]) -> dict[str, Agent]:
    wanted = sorted(ids)
    found: dict[str, Agent] = {}
    for first in range(0, len(wanted), _AT_ONCE):
        found |= Agent.objects.in_bulk(wanted[first : first + _AT_ONCE])
    return found


def _is_same(row: NewAgent, asset: str, limits: Limits) -> bool:
    return row.asset == asset and are_same(row.limits, limits)


def _find_existing(ids: list[str]) -> dict[str, tuple[str, Limits]]:
    """Find which of these agents exist, each with its asset and its limits."""
    found: dict[str, tuple[str, Limits]] = {}
    for first in range(0, len(ids), _AT_ONCE):
        agents = {agent.id: agent for agent in Agent.objects.filter(pk__in=ids[first : first + _AT_ONCE])}
        for revision in PolicyRevision.objects.filter(agent__in=agents):
            agent = agents[revision.agent_id]
            if revision.number == agent.policy_revision:
                found[agent.id] = agent.asset, limits_of(revision)
    return found
