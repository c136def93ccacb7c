"""What a scenario came to: how much was allowed and spent, and everything that is wrong. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain

from tests.overspend.checks import CHECKS, is_in_the_log
from tests.overspend.evidence import NOTHING, Evidence, Kind
from tests.overspend.windows import find_late, worst_of_all


@dataclass(frozen=True, slots=True)
class Verdict:
    """The counts of one scenario. Amounts are sums over its agents, of the worst rolling window of each: with what
    those below spend.

    `decided` counts the answers that say what was decided, `found` those of them that the log has.
    """

    requests: int
    approved: int
    decided: int
    found: int
    allowed: Decimal
    spent: Decimal
    overspend: Decimal
    problems: Mapping[Kind, Sequence[str]]

    @property
    def is_clean(self) -> bool:
        return not self.overspend and self.found == self.decided and not any(self.problems.values())


def judge(evidence: Evidence) -> Verdict:
    """Count everything, and find everything that is wrong."""
    worst = [(account, worst_of_all(account, evidence)) for account in evidence.accounts]
    over = sum((max(NOTHING, window.over) for _, window in worst), NOTHING)
    windows = [window for account, window in worst if not account.is_within_others]
    late = sum((told.amount for told in find_late(evidence)), NOTHING)
    problems: dict[Kind, list[str]] = {kind: [] for kind in Kind}
    for kind, sentence in chain(evidence.seen, *(check(evidence) for check in CHECKS)):
        problems[kind].append(sentence)
    decided = [told for told in evidence.told if told.is_decided]
    return Verdict(
        requests=len(evidence.told),
        approved=len(evidence.approvals),
        decided=len(decided),
        found=sum(is_in_the_log(told, evidence) for told in decided),
        allowed=sum((window.allowed for window in windows), NOTHING),
        spent=sum((window.spent for window in windows), NOTHING),
        overspend=over + late,
        problems=problems,
    )
