"""Record what a batch holds for a person's approval, and what it ends of that."""

import json
from collections.abc import Sequence

from ledger.models import Hold
from payments.deciding.running import Decided, NewHold


def record_holds(decided: Sequence[Decided]) -> None:
    """Write what a batch holds, and end what was held and is decided now."""
    if new := [_hold_of(one, one.judged.hold) for one in decided if one.judged.hold is not None]:
        Hold.objects.bulk_create(new)
    for one in decided:
        if (held := one.judged.request.held) is not None:
            Hold.objects.filter(pk=held.payment_id).update(ended_at=one.entry.created_at, final_entry=one.entry.id)


def _hold_of(decided: Decided, hold: NewHold) -> Hold:
    request, entry = decided.judged.request, decided.entry
    return Hold(
        id=hold.payment_id,
        agent_id=entry.agent_id,
        ancestors=decided.judged.known.agent.ancestors,
        entry_id=entry.id,
        service=entry.service,
        amount=request.amount,
        api_key=request.asked_with,
        demand_json=None if request.demand is None else json.dumps(request.demand.requirements),
        created_at=entry.created_at,
        expires_at=hold.expires_at,
    )
