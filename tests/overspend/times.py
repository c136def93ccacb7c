"""Scenarios in which a clock is wrong, or a day or a week begins."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial

import requests

from foundation.kernel.ids import time_of
from foundation.kernel.times import utc_now
from tests.overspend.answers import UNAVAILABLE
from tests.overspend.clocks import ProcessClock, WorldClock
from tests.overspend.stage import Payer, Stage
from tests.overspend.wrong_databases import CLOCK, wrong_url

_APART = timedelta(minutes=5)
_SECOND, _JUST_BEFORE = timedelta(seconds=1), timedelta(seconds=5)
_DAY, _WEEK = timedelta(hours=24), timedelta(days=7)
# So long a storm may take, on the slowest machine.
_MARGIN = timedelta(seconds=60)


def hosts_apart(stage: Stage) -> None:
    """Ask hosts, too, whose clocks are five minutes ahead of and behind the database's: they decide nothing."""
    payers = [stage.payer(day="20", wanted="20") for _ in range(stage.world.size(4, 2))]
    ahead = ProcessClock(stage.world.folder / "ahead", _APART)
    behind = ProcessClock(stage.world.folder / "behind", -_APART)
    fleet = stage.world.fleet
    with stage.world.servers(ahead.variables, behind.variables) as wrong:
        for url, apart in zip(wrong.urls, (_APART, -_APART), strict=True):
            _check_clock(stage, url, apart)
        stage.use(fleet, wrong)
        stage.strike([payer.shot() for payer in payers for _ in range(stage.world.size(150, 40))])
        stage.use(fleet)
        stage.insist()
        # Who asks the wrong hosts again is told what the others decided.
        stage.use(wrong)
        stage.repeat(stage.world.size(100, 20))
        there = [told for told in stage.told if told.shot.url in wrong.urls and not told.answer.is_replay]
    stage.expect(there, "Nobody asked a host whose clock is wrong.")
    for told in there:
        stage.expect(told.status == UNAVAILABLE and not told.is_decided, f"{told}, by a host whose clock is wrong.")


def _check_clock(stage: Stage, url: str, ahead: timedelta) -> None:
    """See that a host's clock is as wrong as it should be: the ids that it makes tell its time."""
    request_id = requests.get(f"{url}/healthz", timeout=60).headers["X-Request-Id"]
    found = time_of(request_id) - utc_now() - ahead
    stage.expect(abs(found) < _MARGIN, f"The clock of a host is {found} from where it should be.")


def midnight(stage: Stage) -> None:
    """Spend all that fits just before midnight; ask again behind it, and before and after the windows have moved on.

    10 a day and 15 a week. The midnight begins a Monday, so a day and a week of the calendar; but the windows roll.
    """
    payers = [stage.payer(day="10", week="15", wanted="25") for _ in range(stage.world.size(5, 2))]
    with another_day(stage, CLOCK) as clock:
        monday = next_monday()
        show = partial(_show, stage, clock, payers)
        show(monday - _JUST_BEFORE, fitting=10, when="before midnight")
        first = min(told.created_at for told in stage.told if told.is_approved)
        stage.expect(first < monday, f"Nothing was paid before midnight: it was {first} already.")
        show(monday + _SECOND, fitting=0, when="after midnight")
        show(monday + _DAY - _MARGIN, fitting=0, when="before 24 hours have passed")
        show(monday + _DAY + _MARGIN, fitting=5, when="after 24 hours, of what is left of the week")
        show(monday + _WEEK - _MARGIN, fitting=0, when="before 7 days have passed")
        show(monday + _WEEK + _MARGIN, fitting=10, when="after 7 days")
        stage.repeat(stage.world.size(100, 20))


@contextmanager
def another_day(stage: Stage, *schemas: str) -> Iterator[WorldClock]:
    """Play with servers of their own, whose clock and whose database's clock are set together."""
    clock = WorldClock(stage.world.folder / "another-day", stage.world.installation)
    database = wrong_url(stage.world.installation, schemas)
    with stage.world.servers({**clock.processes.variables, "DATABASE_URL": database}) as servers:
        stage.processes = 0
        stage.use(servers)
        yield clock


def next_monday() -> datetime:
    """Return the next beginning of a week that is at least a day away: chains know no past."""
    first = datetime.combine(utc_now().date(), datetime.min.time(), UTC) + 2 * _DAY
    return first + timedelta(days=-first.weekday() % 7)


def _show(
    stage: Stage, clock: WorldClock, payers: Sequence[Payer], instant: datetime, *, fitting: int, when: str
) -> None:
    """Let each agent ask for 1.00 more often than fits, from a moment on, and see how often it got it."""
    known = len(stage.told)
    shots = [payer.shot() for payer in payers for _ in range(stage.world.size(40, 16))]
    list(stage.storm(shots, on_ready=partial(clock.set, instant)))
    stage.insist()
    for payer in payers:
        told = [one for one in stage.told[known:] if one.agent == payer.account.agent and one.is_approved]
        approved = len({one.payment_id for one in told})
        stage.expect(approved == fitting, f"{payer.account.agent} was paid {approved} times {when}, not {fitting}.")
