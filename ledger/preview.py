"""Tell what other limits would have refused, or let through, of what an agent asked for lately.

See `ledger.replay` for what is judged anew and what is taken as it was.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from foundation.kernel.money import EXACT
from ledger.past import Payee
from ledger.past_reads import read_history
from ledger.replay import Judged, replay
from ledger.tree_notes import say_of_tree
from policy.limits import Limits
from policy.models import Agent
from policy.more_limits import NO_MORE

PERIOD = timedelta(days=30)
# So that the page comes within 300 ms: by the limits of every policy, and by all optional ones, which take longer.
MOST_DECISIONS, MOST_WITH_MORE = 10_000, 4_000
MOST_LISTED = 50


@dataclass(slots=True)
class Share:
    """Some decisions: how many, their sum, how many by each rule and on each day (UTC), and the newest of them."""

    count: int = 0
    total: Decimal = Decimal(0)
    by_rule: Counter[str] = field(default_factory=Counter)
    total_by_rule: defaultdict[str, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    by_day: Counter[date] = field(default_factory=Counter)
    newest: deque[Judged] = field(default_factory=lambda: deque(maxlen=MOST_LISTED))

    def add(self, judged: Judged, rule: str) -> None:
        self.count += 1
        self.total = EXACT.add(self.total, judged.past.amount)
        self.by_rule[rule] += 1
        self.total_by_rule[rule] = EXACT.add(self.total_by_rule[rule], judged.past.amount)
        self.by_day[judged.past.at.astimezone(UTC).date()] += 1
        self.newest.appendleft(judged)


@dataclass(frozen=True, slots=True)
class Preview:
    """What other limits would have done since a moment.

    `refused` was approved and would not have been, by the rule that would have refused it; `let_through` was refused
    and would not have been, by the rule that refused it. A person would have had to approve `held`, by the rule that
    asks for that, and did approve `unasked`, which nobody would have had to. `is_capped`: there were more decisions,
    which are not judged. `notes`: what of the agent's tree is judged and what is not, in sentences.
    """

    since: datetime
    until: datetime
    decisions: int
    is_capped: bool
    notes: tuple[str, ...]
    refused: Share
    let_through: Share
    held: Share
    unasked: Share

    @property
    def otherwise(self) -> int:
        """How many decisions would have come out otherwise."""
        return sum(share.count for share in self.shares)

    @property
    def shares(self) -> tuple[Share, ...]:
        """What would have come out otherwise."""
        return self.refused, self.let_through, self.held, self.unasked

    def newest(self) -> list[Judged]:
        """Return those that would have come out otherwise, the newest first, as many as are listed."""
        found = sorted((one for share in self.shares for one in share.newest), key=_by_chain, reverse=True)
        return found[:MOST_LISTED]


def preview_limits(
    agent: Agent,
    limits: Limits,
    *,
    now: datetime,
    payees: Mapping[str, Payee],
    since: datetime | None = None,
    most: int | None = None,
    report: Callable[[], None] = lambda: None,
) -> Preview:
    """Judge an agent's newest decisions of the last 30 days, or since a moment, by other limits, `most` at most.

    `payees`: those that the other limits allow, as they are now. `report` is called for each decision.
    """
    if most is None:
        most = MOST_DECISIONS if limits.more == NO_MORE else MOST_WITH_MORE
    since = now - PERIOD if since is None else since
    history, is_capped = read_history(agent, limits.more, since=since, payees=payees, most=most)
    shares = (Share(), Share(), Share(), Share())
    for judged in replay(history, limits):
        report()
        _sort(judged, *shares)
    judged_of = [past for past in history.decisions if past.is_judged]
    began = min(past.at for past in judged_of) if is_capped else since
    notes = tuple(say_of_tree(agent, limits.more.parent, below=sum(past.payer is not None for past in judged_of)))
    return Preview(began, now, len(judged_of), is_capped, notes, *shares)


def _sort(judged: Judged, refused: Share, let_through: Share, held: Share, unasked: Share) -> None:
    """Count a decision where it would have come out otherwise."""
    past = judged.past
    if past.is_approved and not judged.is_approved:
        refused.add(judged, judged.rule)
    elif judged.held_by is not None and not past.was_asked:
        held.add(judged, judged.held_by)
    elif judged.is_approved and not past.is_approved:
        let_through.add(judged, past.rule)
    elif judged.is_approved and past.was_asked and not past.is_of_others and judged.held_by is None:
        unasked.add(judged, judged.rule)


def _by_chain(judged: Judged) -> tuple[int, tuple[datetime, bool, int, str]]:
    return judged.past.repairs, judged.past.moment()
