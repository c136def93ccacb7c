"""Read a file of agents whose past is judged by the limits that it gives them: as `create_agent --from` has it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.core.management.base import CommandError

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from payments.management.agent_rows import Problem, name_problems, read_asset_and_limits, read_lines
from policy.limits import Limits
from policy.models import Agent
from policy.operations import check_limits

_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class Tried:
    """An agent that exists, and the limits that are tried on it, from a line of the file."""

    line: int
    agent_id: str
    asset: Asset
    limits: Limits


def read_tried(path: str, *, only: Sequence[str] = ()) -> list[Tried]:
    """Read and check a file; returns its agents, or of these only those that are named.

    Raises:
        CommandError: it cannot be read, or names every line that is wrong, with the reason; or it has no such agent.
    """
    problems: list[Problem] = []
    rows: list[Tried] = []
    for line, cells in read_lines(path, named="FILE"):
        try:
            asset, limits = read_asset_and_limits(cells)
            check_limits(asset, limits)
            rows.append(Tried(line, cells["id"], asset, limits))
        except (OperationRefused, ValueError) as error:
            problems.append((line, str(error)))
    problems += _compare(rows)
    if problems:
        raise CommandError(name_problems("Nothing was judged. What is wrong with the file:", problems))
    if missing := sorted(set(only) - {row.agent_id for row in rows}):
        raise CommandError(f"--agent: The file has no agent {', '.join(missing)}.")
    return [row for row in rows if not only or row.agent_id in only]


def _compare(rows: Sequence[Tried]) -> Iterator[Problem]:
    """Find the lines whose agent does not exist, has another asset, or is in an earlier line."""
    first: dict[str, Tried] = {}
    assets = _find_assets([row.agent_id for row in rows])
    for row in rows:
        if (other := first.setdefault(row.agent_id, row)) is not row:
            yield row.line, f"The agent {row.agent_id} is in line {other.line} already."
        elif row.agent_id not in assets:
            yield row.line, f"There is no agent {row.agent_id}."
        elif assets[row.agent_id] != row.asset:
            yield row.line, f"asset: The allowance of {row.agent_id} is in {assets[row.agent_id]}."


def _find_assets(ids: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for first in range(0, len(ids), _AT_ONCE):
        found |= Agent.objects.filter(pk__in=ids[first : first + _AT_ONCE]).values_list("id", "asset")
    return found
