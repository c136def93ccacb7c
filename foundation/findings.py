"""What is wrong or waits for a person: the one value that probes, console, alarms, doctor, gauges and commands print.

Each app lists in its `findings` what it can find. An app above adds its own to the lists of those below it, so that
`backoffice.findings` has all of them. Whoever prints findings chooses among them by kind, severity or cost, and has no
words of its own.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from foundation.console.links import list_page, row_page

# The roles whose errand something may be, as NOTICE_URLS names them.
FINANCE, OPERATIONS, ADMINISTRATOR = "finance", "operations", "administrator"


class Severity(StrEnum):
    """How much it matters, the worst first; also the name of the notice's look."""

    ERROR = "error"  # money is wrong, or nobody is paid
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the console: a list of rows, filtered by `query`, or with a `key` the page of one row.

    `model` is the list's name as in its address (`payments_relayer`), `words` what a link says. Who may see the rows
    may see the page, unless it `needs` another permission. Whoever lacks the permission `acts` can only look there.
    """

    words: str
    model: str
    query: Mapping[str, str] = field(default_factory=dict)
    key: str = ""
    needs: str = ""
    acts: str = ""

    @property
    def url(self) -> str:
        return row_page(self.model, self.key) if self.key else list_page(self.model, **self.query)

    @property
    def permission(self) -> str:
        """The permission without which nobody sees the page, or what leads to it."""
        app, _, model = self.model.partition("_")
        return self.needs or f"{app}.view_{model}"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of finding: the name by which alarms, gauges and documents know it, what it means and what mends it.

    `runbook` is a page below docs, which the console shows. `helps`: other pages that help; `{subject}` in their query
    is what a finding is about. `told`: the roles whose errand it is. A kind that no role is told of stands neither in
    the work queue nor among the alarms: those see it who operate the installation.
    """

    name: str
    means: str
    mend: str
    runbook: str
    helps: tuple[Page, ...] = ()
    told: tuple[str, ...] = (OPERATIONS,)


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found: `count` things of a kind, in a sentence, with the page of the console that deals with them.

    `subject` tells several findings of one kind apart. `since`: the moment since which the oldest of them is so; None:
    that is not known. `unready`: the few words by which `/readyz` names it, for everybody to read; "" unless it keeps
    payments from being made.
    """

    kind: Kind
    severity: Severity
    says: str
    page: Page
    subject: str = ""
    count: int = 1
    since: datetime | None = None
    unready: str = ""

    @property
    def mend(self) -> str:
        """What mends it."""
        return self.kind.mend


@dataclass(frozen=True, slots=True)
class Finder:
    """The one function that finds findings of these kinds.

    `is_quick`: it needs but a few short reads of rows, so it may be asked every few seconds.
    """

    find: Callable[[], Iterable[Finding]]
    kinds: tuple[Kind, ...]
    is_quick: bool = False

    @property
    def name(self) -> str:
        """The name by which an alarm says what looks for its cause."""
        return self.find.__name__
