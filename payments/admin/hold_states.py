"""How payments fare that wait, or waited, for a person's approval: in words, and as a filter of their list."""

from enum import StrEnum
from typing import Any

from django.contrib import admin
from django.db.models import F, Q, QuerySet
from django.http import HttpRequest

from foundation.kernel.times import utc_now
from ledger.models import Hold, HoldAnswer, Result
from payments.holding.states import is_stuck


class HoldState(StrEnum):
    """What became of a payment that was held."""

    WAITS = "waits"
    APPROVED = "approved"
    DECLINED = "declined"
    EXPIRED = "expired"
    REFUSED = "refused"


WORDS = {
    HoldState.WAITS: "Waits for approval",
    HoldState.APPROVED: "Approved",
    HoldState.DECLINED: "Declined",
    HoldState.EXPIRED: "Expired",
    HoldState.REFUSED: "Refused all the same",
}
_IS_REFUSED = Q(final_entry__result=Result.BLOCKED)
_IS_EXPIRED = Q(answer="", ended_at__gte=F("expires_at"))
_SELECTED = {
    HoldState.WAITS: Q(ended_at=None),
    HoldState.APPROVED: Q(final_entry__result=Result.APPROVED),
    HoldState.DECLINED: _IS_REFUSED & Q(answer=HoldAnswer.DECLINE),
    HoldState.EXPIRED: _IS_REFUSED & _IS_EXPIRED,
    HoldState.REFUSED: _IS_REFUSED & ~_IS_EXPIRED & ~Q(answer=HoldAnswer.DECLINE),
}


def state_of(hold: Hold) -> HoldState:
    """Tell what became of a payment that was held. Its `final_entry` was read with it."""
    if hold.ended_at is None or hold.final_entry is None:
        return HoldState.WAITS
    if hold.final_entry.result == Result.APPROVED:
        return HoldState.APPROVED
    if hold.answer == HoldAnswer.DECLINE:
        return HoldState.DECLINED
    is_expired = not hold.answer and hold.is_expired(hold.ended_at)
    return HoldState.EXPIRED if is_expired else HoldState.REFUSED


def can_be_answered(hold: Hold) -> bool:
    """Tell whether a person can still approve or decline a payment."""
    return hold.ended_at is None and not hold.answer and not hold.is_expired(utc_now())


def fate_of(hold: Hold) -> str:
    """Say what became of a payment, or what it waits for, in a sentence."""
    state = state_of(hold)
    until = f"{hold.expires_at:%Y-%m-%d %H:%M} UTC"
    if state is HoldState.WAITS and hold.answer:
        return f"{hold.answered_by} has {HoldAnswer(hold.answer).label} it{_decided_when(hold, until)}"
    return {
        HoldState.WAITS: f"A person has to approve it until {until}. Nothing is signed before; then it is refused.",
        HoldState.APPROVED: f"{hold.answered_by} has approved it, and it was signed.",
        HoldState.DECLINED: f"{hold.answered_by} has declined it. Nothing was paid.",
        HoldState.EXPIRED: f"Nobody has answered until {until}. Nothing was paid.",
        HoldState.REFUSED: "It was refused all the same. Nothing was paid.",
    }[state]


def _decided_when(hold: Hold, until: str) -> str:
    """Say how it goes on with what somebody has answered."""
    if not is_stuck(hold, utc_now()):
        return ". It is decided within a second."
    if hold.answer == HoldAnswer.DECLINE:
        return ", but no worker has decided it yet: look at the processes."
    return (
        ", but it cannot be signed now: look at its chain, the gas budget of the agent, the policy signer and the "
        f"alarms. It is tried again each second until {until}; then it is refused."
    )


class HoldStateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    def lookups(self, _request: HttpRequest, _model_admin: Any) -> list[tuple[str, str]]:
        return [(state.value, words) for state, words in WORDS.items()]

    def queryset(self, _request: HttpRequest, queryset: QuerySet[Hold]) -> QuerySet[Hold]:
        value = self.value()
        return queryset.filter(_SELECTED[HoldState(value)]) if value in _SELECTED else queryset
