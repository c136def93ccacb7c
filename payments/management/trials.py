"""The base of commands that judge what agents asked for by limits that are tried, and say what came out otherwise."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from foundation.commands import JsonCommand
from foundation.groups import snapshot, within_group_of
from foundation.kernel.times import utc_now
from ledger.past_payees import read_payees
from ledger.preview import Preview, preview_limits
from payments.management.trial_output import lines_of, present
from policy.limits import Limits
from policy.models import Agent

# Of each agent, where it is said since when: all are held in memory.
MOST_SINCE = 250_000
_PROGRESS_EVERY_S = 2


@dataclass(frozen=True, slots=True)
class Trial:
    """An agent, and the limits that are tried on it since a moment; None: on what the console's preview judges."""

    agent_id: str
    asset: str
    limits: Limits
    since: datetime | None = None


class TrialCommand(JsonCommand):
    """A command that says what limits would have decided otherwise, in lines or as JSON."""

    def judge(self, trials: Sequence[Trial], *, is_json: bool) -> dict[str, Any] | None:
        """Judge by the limits, and print what came out otherwise, or return it."""
        judged = _judge(trials, self.stderr.write)
        if is_json:
            return {"agents": [present(trial.agent_id, trial.asset, found) for trial, found in judged]}
        for trial, found in judged:
            for line in lines_of(trial.agent_id, trial.asset, found):
                self.stdout.write(line)
        return None


def _judge(trials: Sequence[Trial], write: Callable[[str], Any]) -> Iterator[tuple[Trial, Preview]]:
    now, progress = utc_now(), _Progress(len(trials), write)
    for trial in trials:
        most = None if trial.since is None else MOST_SINCE
        # Of one moment, and without the limit of time that a page has.
        with within_group_of(trial.agent_id), snapshot():
            agent, payees = Agent.objects.get(pk=trial.agent_id), read_payees(trial.limits)
            found = preview_limits(
                agent, trial.limits, now=now, payees=payees, since=trial.since, most=most, report=progress.report
            )
        progress.agents += 1
        yield trial, found


class _Progress:
    """Says now and then how far the work has come."""

    def __init__(self, total: int, write: Callable[[str], Any]) -> None:
        self.agents, self._total, self._write = 0, total, write
        self._decisions, self._said_at = 0, time.monotonic()

    def report(self) -> None:
        """Count a decision."""
        self._decisions += 1
        if time.monotonic() - self._said_at > _PROGRESS_EVERY_S:
            self._said_at = time.monotonic()
            self._write(f"{self.agents:,} of {self._total:,} agents, {self._decisions:,} decisions judged ...")
