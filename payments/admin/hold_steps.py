"""What the console shows before somebody approves or declines a payment, and what it proposes then."""

from collections.abc import Mapping
from typing import Any

from foundation.console.figures import show_amount
from ledger.decision_page import read_metadata
from ledger.judgements import tell, words_of
from ledger.models import Hold
from payments.holding.proposals import APPROVE as APPROVE_KIND
from payments.holding.proposals import DECLINE as DECLINE_KIND
from staff.asking import Step
from staff.second_person import Proposal


def _facts(hold: Hold) -> dict[str, str]:
    entry = hold.entry
    told = tell(entry)
    return {
        "Amount": f"{show_amount(hold.amount)} {entry.asset}",
        "Agent": hold.agent_id,
        "Payee": hold.service,
        "Address": told.recipient or "not known",
        "The agent's reason": entry.reason,
        **{f"Metadata: {name}": value for name, value in read_metadata(entry)},
        "Why it waits": f"{words_of(entry)}. {told.words}",
        "Asked for": f"{hold.created_at:%Y-%m-%d %H:%M:%S} UTC",
        "Waits until": f"{hold.expires_at:%Y-%m-%d %H:%M:%S} UTC",
    }


def _propose(kind: str, hold: Hold) -> Proposal:
    return Proposal(kind, "payment", hold.pk, {"payment": hold.pk}, list(_facts(hold).items()), "")


def _approve(hold: Hold, _asked: Mapping[str, Any]) -> Proposal:
    return _propose(APPROVE_KIND, hold)


def _decline(hold: Hold, _asked: Mapping[str, Any]) -> Proposal:
    return _propose(DECLINE_KIND, hold)


APPROVE = Step(
    "Approve a payment",
    "It is judged once more, by the policy and the facts of that moment, then signed and paid. Compare amount and "
    "address with what you know from elsewhere: reason and metadata are the agent's own words, whoever wrote them.",
    _approve,
    _facts,
)
DECLINE = Step(
    "Decline a payment",
    "Nothing is paid, and its amount is on the balance and below the limits again. The agent is told your reason.",
    _decline,
    _facts,
    is_urgent=True,
)
