"""Read a file of agents to make: CSV with a header. Every line that is wrong is named before anything is made."""

import csv
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from django.core.management.base import CommandError

from chains.catalogue import find_chain
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import AmountError, parse_amount
from payments.funding.credits import check_chain
from policy.agent_ids import find_same, taken_for, written_plainly
from policy.limit_texts import read_optional, text_or_none
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.more_limits import PART_OF_FIELD, MoreLimits, write_more
from policy.operations import check_new_agent
from policy.revisions import limits_of

_REQUIRED = ("id", "asset", "max_per_payment", "daily_limit", "weekly_limit")
_OPTIONAL = ("fund", "chain", "services")
_MOST_NAMED = 50
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
    problems: list[tuple[int, str]] = []
    rows: list[NewAgent] = []
    for line, cells in _read_lines(path):
        try:
            rows.append(_read(line, cells))
        except (OperationRefused, ValueError) as error:
            problems.append((line, str(error)))
    existing = _find_existing([row.id for row in rows])
    problems += _find_repeated(rows, existing)
    same = find_same(row.id for row in rows if row.id not in existing)
    problems += [(row.line, taken_for(row.id, same[row.id])) for row in rows if row.id in same]
    problems += [
        (row.line, f"There is an agent {row.id} already, with another asset or policy: set_policy changes it.")
        for row in rows
        if row.id in existing and existing[row.id] != _identity(row.asset, row.limits)
    ]
    if problems:
        raise CommandError(_name(sorted(problems)))
    return AgentFile([row for row in rows if row.id not in existing], [row.id for row in rows if row.id in existing])


def _read_lines(path: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Read the lines below the header, each with its number in the file; empty lines are skipped."""
    try:
        # A table program may begin the file with a byte order mark.
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"--from: {error}") from error
    reader = csv.DictReader(text.splitlines(keepends=True), restkey="more", restval="", strict=True)
    names = reader.fieldnames or []
    missing, unknown = (
        [one for one in _REQUIRED if one not in names],
        set(names) - {*_REQUIRED, *_OPTIONAL, *PART_OF_FIELD},
    )
    if missing or unknown or len(set(names)) < len(names):
        raise CommandError(
            f"--from: The first line must name the columns {', '.join(_REQUIRED)}, and may name "
            f"{', '.join(_OPTIONAL)}, and of the optional limits {', '.join(PART_OF_FIELD)}, each once, separated by "
            "commas."
        )
    try:
        for cells in reader:
            yield reader.line_num, cells
    except csv.Error as error:
        raise CommandError(f"--from: line {reader.line_num}: {error}") from error


def _read(line: int, cells: Mapping[str, str]) -> NewAgent:
    """Read one line; raises `OperationRefused` or `ValueError` with a reason."""
    if "more" in cells:
        raise ValueError("It has more cells than the header.")
    if cells["asset"] not in Asset.__members__:
        raise ValueError(f"asset: Must be one of {', '.join(Asset)}.")
    asset = Asset(cells["asset"])
    per_payment, daily, weekly = (_amount(cells, name, asset, allow_zero=True) for name in _REQUIRED[2:])
    services = cells.get("services", "").replace(";", " ").split()
    # An empty cell, as a column that is missing: no such limit.
    more = {name: text_or_none(cells[name]) for name in PART_OF_FIELD if cells.get(name)}
    limits = Limits(per_payment, daily, weekly, services or None, MoreLimits(**read_optional(more, asset)))
    check_new_agent(cells["id"], asset, limits)
    fund = _amount(cells, "fund", asset, allow_zero=False) if cells.get("fund") else None
    return NewAgent(line, cells["id"], asset, limits, fund, _chain(cells.get("chain", ""), asset))


def _amount(cells: Mapping[str, str], name: str, asset: Asset, *, allow_zero: bool) -> Decimal:
    try:
        return parse_amount(cells[name], asset, allow_zero=allow_zero)
    except AmountError as error:
        raise ValueError(f"{name}: {error}") from error


def _chain(name: str, asset: Asset) -> str | None:
    if not name:
        return None
    chain = find_chain(name)
    if chain is None:
        raise ValueError(f"chain: There is no chain {name}.")
    check_chain(chain.caip2, asset)
    return chain.caip2


def _find_repeated(rows: list[NewAgent], existing: Container[str]) -> Iterator[tuple[int, str]]:
    first: dict[str, NewAgent] = {}
    for row in rows:
        other = first.setdefault(written_plainly(row.id), row)
        if other is not row and (other.id == row.id or row.id not in existing):
            yield row.line, f"The agent {other.id} is in line {other.line} already."


def _find_existing(ids: list[str]) -> dict[str, object]:
    """Find which of these agents exist, each with what `_identity` says of it."""
    found: dict[str, object] = {}
    for first in range(0, len(ids), _AT_ONCE):
        agents = {agent.id: agent for agent in Agent.objects.filter(pk__in=ids[first : first + _AT_ONCE])}
        for revision in PolicyRevision.objects.filter(agent__in=agents):
            agent = agents[revision.agent_id]
            if revision.number == agent.policy_revision:
                found[agent.id] = _identity(Asset(agent.asset), limits_of(revision))
    return found


def _identity(asset: Asset, limits: Limits) -> object:
    allowed = None if limits.allowed_services is None else sorted(set(limits.allowed_services))
    # The optional ones as the database has them: a moment is not written to the microsecond.
    return asset, limits.max_per_payment, limits.daily_limit, limits.weekly_limit, allowed, write_more(limits.more)


def _name(problems: list[tuple[int, str]]) -> str:
    named = [f"line {line}: {reason}" for line, reason in problems[:_MOST_NAMED]]
    more = len(problems) - _MOST_NAMED
    rest = [f"and {more} more lines."] if more > 0 else []
    return "\n".join(["No agent was made. What is wrong with the file:", *named, *rest])
