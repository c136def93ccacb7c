"""What the doctor says of a thing that it looked at, and how a check is described."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from django.conf import settings

from chains.catalogue import alias_of, find_chain
from foundation.findings import Finding


class State(StrEnum):
    """What was found: nothing wrong, something to mend, something that stops payments, or nothing, for a reason."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that was looked at: its name, a sentence about it, and what mends it: a command, a setting or SQL.

    What others look at, too, is a finding of theirs, with its sentence and its mend. What only this machine can know is
    a diagnosis of the doctor's own.
    """

    subject: str
    state: State
    says: str
    mend: str = ""

    @property
    def is_trouble(self) -> bool:
        """Whether there is something to mend."""
        return self.state in (State.WARNING, State.ERROR)


def diagnosis_of(finding: Finding, mend: str = "") -> Diagnosis:
    """Say what was found; `mend`: what mends it, if more is known of that here."""
    subject = f"{finding.kind.name} {alias_of(finding.subject)}".strip()
    return Diagnosis(subject, State(finding.severity.value), finding.says, mend or finding.mend)


def ok(subject: str, says: str) -> Diagnosis:
    """Find nothing wrong."""
    return Diagnosis(subject, State.OK, says)


def warning(subject: str, says: str, mend: str) -> Diagnosis:
    """Find something that should be mended."""
    return Diagnosis(subject, State.WARNING, says, mend)


def error(subject: str, says: str, mend: str) -> Diagnosis:
    """Find something that keeps payments, or what goes with them, from working."""
    return Diagnosis(subject, State.ERROR, says, mend)


def skipped(subject: str, says: str) -> Diagnosis:
    """Say why something was not looked at."""
    return Diagnosis(subject, State.SKIPPED, says)


class Part(StrEnum):
    """What other checks rest on: while it is away, they are skipped."""

    DATABASE = "database"
    TABLES = "tables"
    REDIS = "Redis"


Find = Callable[[], Iterator[Diagnosis]]


def found_by(*finders: Callable[[], Iterable[Finding]], subject: str, fine: str) -> Find:
    """Make what looks of finders: it says what they find, or, if that is nothing, that all is fine."""

    def find() -> Iterator[Diagnosis]:
        found = [diagnosis_of(finding) for look in finders for finding in look() if _is_of_this_installation(finding)]
        yield from found or [ok(subject, fine)]

    return find


def _is_of_this_installation(finding: Finding) -> bool:
    """Tell whether a finding is about no chain, or about one that is served: nothing mends what was taken out."""
    return find_chain(finding.subject) is None or finding.subject in settings.CHAINS


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's table: `find` looks at something of an area.

    `needs`: the parts without which it cannot look. `gives`: the part that is away unless all that it finds is ok or a
    warning. `asks_others`: it waits for nodes and the like, and so holds no transaction of the database meanwhile.
    """

    area: str
    looks_at: str
    find: Find
    needs: frozenset[Part] = field(default_factory=frozenset)
    gives: Part | None = None
    asks_others: bool = False
