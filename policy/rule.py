"""What a rule is, and what it says of a payment: why it objects, what it compares, what the log has of it. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from foundation.kernel.errors import ContractError
from foundation.kernel.money import format_amount
from policy.facts import Facts, Level


class Measure(Enum):
    """What a limit of a rolling window is about: the agent's spend, its payments, or its spend at one payee."""

    SPENT = "spent"
    PAYMENTS = "payments"
    PAYEE_SPENT = "payee_spent"


@dataclass(frozen=True, slots=True)
class Wait:
    """The same payment fits a limit once the rolling `window` holds `most_spent` at most of what is measured.

    `level`: it is a limit of this agent above the one that pays; None: its own.
    """

    window: timedelta
    most_spent: Decimal
    measure: Measure = Measure.SPENT
    level: str | None = None


@dataclass(frozen=True, slots=True)
class WaitUntil:
    """The same payment is let pass from this moment on."""

    at: datetime


# An amount in units of the asset, or a number of payments.
Figure = Decimal | int


class Figures(NamedTuple):
    """What a rule compares, None where it has none; `remaining`: the most that it lets pass now."""

    limit: Figure | None = None
    spent: Figure | None = None
    requested: Figure | None = None
    remaining: Figure | None = None


def write_figure(figure: Figure) -> str:
    """Write an amount as amounts are written, and a number as a number."""
    return str(figure) if isinstance(figure, int) else format_amount(figure)


# The same for each payment by a policy.
_write_limit = lru_cache(maxsize=4096, typed=True)(write_figure)
NO_FIGURES = Figures()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a rule decided as it did: a sentence, and what it compared, which are its rule's `figures`.

    `waits_for`: what has to come to pass before the same payment is not objected to; empty: waiting does not help.
    `level`: it is the rule of an agent above the one that pays; None: its own.
    """

    message: str
    waits_for: tuple[Wait | WaitUntil, ...] = ()
    figures: Figures = NO_FIGURES
    level: Level | None = None


class Said(NamedTuple):
    """What the log entry of an approval says of a rule: figures and texts, with what they are in the console's words.

    `share`: the part of the rule's limit that was used after the payment, from 0 to 1.
    """

    figures: tuple[tuple[str, Figure], ...] = ()
    share: float | None = None
    texts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """What the log entry of an approval has of a rule: figures or texts, by their names in the `explanation`.

    `values` takes them from the facts, in the order of `names`; None is left out. `say` tells later what they mean: it
    is given the amount that was paid, then these. `limits`: which of the names are of the policy itself. `keeps`: the
    name of the limit that is not crossed, behind that of what keeps it, both after the payment; None there: the amount
    that was paid.
    """

    names: tuple[str, ...]
    values: Callable[[Facts], tuple[Figure | str | None, ...]]
    say: Callable[..., Said]
    limits: frozenset[str] = frozenset()
    keeps: tuple[str | None, str] | None = None

    def of(self, facts: Facts) -> dict[str, str]:
        """Return what is recorded of a payment."""
        recorded: dict[str, str] = {}
        for name, value in zip(self.names, self.values(facts), strict=True):
            if isinstance(value, str):
                recorded[name] = value
            elif value is not None:
                recorded[name] = _write_limit(value) if name in self.limits else write_figure(value)
        return recorded


@dataclass(frozen=True, slots=True)
class Words:
    """A rule in the console's words: what it says where it passed, and where it refused; `short` is for pictures."""

    passed: str
    refused: str
    short: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of the policy; `name` is its name in the API, in the log and in the console.

    `check` returns None if the rule has nothing against a payment. `varies`: whether an agent's limits and list of
    services change what it says, so that a preview of others asks it again; but for the rule of approved payees, its
    place is behind those that do not vary. `figures`: the amounts that it compares, whatever it decides. `record`: what
    an approval's log entry has of it. `field`: the member of the request that is at fault. `examples`: how
    `EXAMPLE_FACTS` differ where it refuses. `parts`: the optional limits, by their fields, that bring it into a policy;
    none: it is in every policy. `holds`: what it objects to is not refused, but held until a person has approved it.
    `is_of_levels`: whether it judges by an agent's policy or status, so that those above the payer judge by theirs,
    too; None: if it varies.
    """

    name: str
    refuses_with: type[ContractError]
    check: Callable[[Facts], Explanation | None]
    words: Words
    varies: bool
    figures: Callable[[Facts], Figures] = lambda _facts: NO_FIGURES
    record: Record | None = None
    field: str | None = None
    examples: tuple[Mapping[str, Any], ...] = ()
    parts: tuple[str, ...] = ()
    holds: bool = False
    is_of_levels: bool | None = None

    def is_in(self, fields_given: frozenset[str]) -> bool:
        """Tell whether it is in a policy with these optional limits."""
        return not self.parts or not fields_given.isdisjoint(self.parts)

    @property
    def judges_levels(self) -> bool:
        """Tell whether those above the payer ask it, too."""
        return self.varies if self.is_of_levels is None else self.is_of_levels


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome: approved or blocked, by which rule, and why. `objections` are those of all rules, by their names.

    `is_held`: neither yet, for a person has to approve it first.
    """

    is_approved: bool
    rule: Rule
    explanation: Explanation
    objections: Mapping[str, Explanation] = field(default_factory=dict)
    is_held: bool = False

    @property
    def is_refused(self) -> bool:
        return not (self.is_approved or self.is_held)
