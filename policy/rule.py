"""What a rule is, and what it says of a payment: why it objects, what it compares, what the log has of it. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, NamedTuple

from foundation.kernel.errors import ContractError
from policy.facts import Facts


@dataclass(frozen=True, slots=True)
class Wait:
    """The same payment fits a limit once the spend within the rolling `window` is down to `most_spent`."""

    window: timedelta
    most_spent: Decimal


class Figures(NamedTuple):
    """The amounts that a rule compares, None where it has none; `remaining`: the most that it lets pass now."""

    limit: Decimal | None = None
    spent: Decimal | None = None
    requested: Decimal | None = None
    remaining: Decimal | None = None


NO_FIGURES = Figures()


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a rule decided as it did: a sentence, and the amounts that it compared, which are its rule's `figures`.

    `waits_for`: what has to come to pass before the same payment is not objected to; empty: waiting does not help.
    """

    message: str
    waits_for: tuple[Wait, ...] = ()
    figures: Figures = NO_FIGURES


class Said(NamedTuple):
    """What the log entry of an approval says of a rule: amounts with what they are in the console's words.

    `share`: the part of the rule's limit that was used after the payment, from 0 to 1.
    """

    figures: tuple[tuple[str, Decimal], ...] = ()
    share: float | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """What the log entry of an approval has of a rule: amounts, by their names in the entry's `explanation`.

    `amounts` takes them from the facts, in the order of `names`. `say` tells later what they mean: it is given the
    amount that was paid, then these.
    """

    names: tuple[str, ...]
    amounts: Callable[[Facts], tuple[Decimal, ...]]
    say: Callable[..., Said]

    def of(self, facts: Facts) -> dict[str, Decimal]:
        """Return what is recorded of a payment."""
        return dict(zip(self.names, self.amounts(facts), strict=True))


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
    `EXAMPLE_FACTS` differ where it refuses.
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
