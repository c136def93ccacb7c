"""A decision in words: what `ledger.judgements` tells, and templates show. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from policy.rule import Figure


class Outcome(StrEnum):
    """What a rule said: it passed, it refused, a person has to approve it, or nobody needed to ask the rule."""

    PASSED = "passed"
    REFUSED = "refused"
    NEEDS_APPROVAL = "needs_approval"
    NOT_NEEDED = "not_needed"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A rule and what it said of one payment. `share`: the part of its limit that was used after it, from 0 to 1."""

    title: str
    outcome: Outcome
    words: str = ""
    figures: tuple[tuple[str, Figure], ...] = ()
    share: float | None = None


@dataclass(frozen=True, slots=True)
class ToldLevel:
    """What an entry has of an agent above the payer: by which policy revision it judged, and what its rules said."""

    agent: str
    policy_revision: str
    judgements: tuple[Judgement, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """A decision in words. `fits_at`: when the same payment fits, if it does; `can_wait`: whether time matters.

    `escrow_id`: what its chain knows the payment by; older entries do not say it. `level`: the agent above the payer
    whose rule it was that refused, or asked for a person; None: the payer's own. `levels`: those above it, if the entry
    has what they said, the parent first.
    """

    judgements: tuple[Judgement, ...]
    words: str
    recipient: str | None
    escrow_id: str | None
    fits_at: datetime | None
    can_wait: bool
    level: str | None = None
    levels: tuple[ToldLevel, ...] = ()
