"""Read a file of agents whose past is judged by the limits that it gives them: as `create_agent --from` has it."""

from collections.abc import Iterator, Sequence

from django.core.management.base import CommandError

from foundation.kernel.errors import OperationRefused
from payments.management.agent_rows import Problem, name_problems, read_asset_and_limits, read_lines
from payments.management.trials import Trial
from policy.models import Agent
from policy.revisions import check_limits

_AT_ONCE = 1000


def read_tried(path: str, *, only: Sequence[str] = ()) -> list[Trial]:
    """Read and check a file; returns its agents, or of these only those that are named.

    Raises:
        CommandError: it cannot be read, or names every line that is wrong, with the reason; or it has no such agent.
    """
    problems: list[Problem] = []
    rows: list[tuple[int, Trial]] = []
    for line, cells in read_lines(path, named="FILE"):
        try:
            asset, limits = read_asset_and_limits(cells)
            check_limits(asset, limits)
            rows.append((line, Trial(cells["id"], asset, limits)))
        except (OperationRefused, ValueError) as error:
            problems.append((line, str(error)))
    problems += _compare(rows)
    if problems:
        raise CommandError(name_problems("Nothing was judged. What is wrong with the file:", problems))
    tried = [trial for _, trial in rows]
    if missing := sorted(set(only) - {one.agent_id for one in tried}):
        raise CommandError(f"--agent: The file has no agent {', '.join(missing)}.")
    return [one for one in tried if not only or one.agent_id in only]


def _compare(rows: Sequence[tuple[int, Trial]]) -> Iterator[Problem]:
    """Find the lines whose agent does not exist, has another asset, or is in an earlier line."""
    first: dict[str, int] = {}
    assets = _find_assets([trial.agent_id for _, trial in rows])
    for line, trial in rows:
        agent_id = trial.agent_id
        if (earlier := first.setdefault(agent_id, line)) != line:
            yield line, f"The agent {agent_id} is in line {earlier} already."
        elif agent_id not in assets:
            yield line, f"There is no agent {agent_id}."
        elif assets[agent_id] != trial.asset:
            yield line, f"asset: The allowance of {agent_id} is in {assets[agent_id]}."


def _find_assets(ids: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for first in range(0, len(ids), _AT_ONCE):
        found |= Agent.objects.filter(pk__in=ids[first : first + _AT_ONCE]).values_list("id", "asset")
    return found
