"""What the page of a payment shows that a person has to approve: all that they decide by, and what became of it."""

from typing import Any

from chains.catalogue import alias_of, find_chain
from ledger.decision_page import show_decision
from ledger.entry_columns import decision_badge
from ledger.judgements import tell, words_of
from ledger.models import Hold, LogEntry
from payments.admin.agents.overview import show_overview
from payments.admin.hold_states import WORDS, HoldState, fate_of, state_of
from payments.holding.proposals import APPROVE
from services.models import Service
from staff.change_requests import find_waiting
from staff.models import ChangeRequest

_MOST_LATELY = 10


def find_payee(hold: Hold) -> tuple[Service | None, bool]:
    """Find the payee of a payment, and tell whether it is registered at another address than was asked for."""
    payee = Service.objects.filter(pk=hold.service).first()
    return payee, payee is not None and payee.canonical_recipient != tell(hold.entry).recipient


def show_hold(hold: Hold) -> dict[str, Any]:
    """Give the template all that is known of a payment that waits, or waited. Its entries were read with it."""
    state, decision = state_of(hold), show_decision(hold.entry)
    chain, _, address = (decision["told"].recipient or "").rpartition(":")
    known = find_chain(chain)
    payee, has_moved = find_payee(hold)
    overview = show_overview(hold.agent_id)
    return {
        **decision,
        "state": state,
        "fate": fate_of(hold),
        "is_paid": state is HoldState.APPROVED,
        "state_words": WORDS[state].lower(),
        "final": None if hold.final_entry is None else tell(hold.final_entry),
        "chain": alias_of(chain),
        "address": address,
        "explorer": known.link_to_address(address) if known else "",
        "payee": payee,
        "has_moved": has_moved,
        "request_row": _find_request(hold),
        "lately": _find_lately(hold),
        **{name: overview.get(name) for name in ("budget", "runway", "bars", "held", "levels")},
    }


def _find_request(hold: Hold) -> ChangeRequest | None:
    """Find what a second person has to confirm of it."""
    asked = (one for one in find_waiting() if one.kind == APPROVE and one.arguments.get("payment") == hold.pk)
    return next(asked, None)


def _find_lately(hold: Hold) -> list[dict[str, Any]]:
    """Find the agent's newest decisions beside those on this payment."""
    of_agent = LogEntry.objects.filter(agent=hold.agent_id).exclude(pk__in=[hold.entry_id, hold.final_entry_id])
    newest = of_agent.order_by("-created_at", "-id")[:_MOST_LATELY]
    return [{"entry": one, "badge": decision_badge(one), "why": words_of(one)} for one in newest]
