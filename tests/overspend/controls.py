"""What must be noticed: the same checks, on servers whose database leaks on purpose."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from tests.overspend.evidence import Kind
from tests.overspend.stage import Payer, Stage
from tests.overspend.times import another_day, next_monday
from tests.overspend.trees import child_of
from tests.overspend.wrong_databases import CLOCK, wrong_url


@dataclass(frozen=True, slots=True)
class Control:
    """A leak, as it is played, and what of it must be noticed."""

    play: Callable[[Stage], None]
    leak: str
    kind: Kind


def no_lock(stage: Stage) -> None:
    """Let an agent's payments be decided side by side."""
    _ask_on(stage, "no_lock", servers=4)  # a process decides one batch at a time


def no_windows(stage: Stage) -> None:
    """Let every window be empty."""
    _ask_on(stage, "no_windows")


def no_levels(stage: Stage) -> None:
    """Let nobody count what those below it pay."""
    root = stage.payer(day="1.00")
    _ask_on(stage, "no_levels", [child_of(stage, root) for _ in range(3)])


def no_records(stage: Stage) -> None:
    """Let nothing be written down that clients are told."""
    _ask_on(stage, "no_records")


def calendar_windows(stage: Stage) -> None:
    """Let windows begin with the day and the week of the calendar."""
    payer = stage.payer(day="10", week="15")
    with another_day(stage, "calendar", CLOCK) as clock:
        for moment in (timedelta(seconds=-5), timedelta(seconds=1)):
            clock.set(next_monday() + moment)
            stage.strike([payer.shot() for _ in range(16)])
            stage.insist()


def _ask_on(stage: Stage, schema: str, payers: Sequence[Payer] = (), servers: int = 1) -> None:
    payers = payers or [stage.payer(day="1.00")]
    database = wrong_url(stage.world.installation, [schema])
    with stage.world.servers(*[{"DATABASE_URL": database}] * servers) as running:
        stage.processes = 0
        stage.use(running)
        stage.strike([payer.shot("0.99") for payer in payers for _ in range(50 // len(payers))])
        stage.insist()


CONTROLS: Mapping[str, Control] = {
    "lock": Control(no_lock, "payments of one agent are decided side by side", Kind.OVERSPENT),
    "windows": Control(no_windows, "every window is empty", Kind.OVERSPENT),
    "levels": Control(no_levels, "what is paid below counts nowhere", Kind.OVERSPENT),
    "calendar": Control(calendar_windows, "windows begin at midnight", Kind.OVERSPENT),
    "records": Control(no_records, "nothing is written down", Kind.LOST),
}
