"""What the console shows before signing on a chain is stopped or started, and what it proposes then."""

from collections.abc import Mapping
from typing import Any

from chains.catalogue import alias_of
from foundation.kernel.errors import OperationRefused
from payments.models import ChainState
from payments.proposals import START_CHAIN, STOP_CHAIN
from payments.reconciling.outflow_booking import find_open_outflows
from staff.asking import Step
from staff.models import AuditEntry
from staff.second_person import Proposal

_MOST_NAMED = 5


def _facts(state: ChainState) -> dict[str, str]:
    if not state.stopped_at:
        return {"Chain": alias_of(state.chain), "Signing": "Payments are signed."}
    stop = AuditEntry.objects.filter(subject=state.chain, action="chain.stopped").first()
    outflows = list(find_open_outflows(state.chain)[: _MOST_NAMED + 1])
    named = ", ".join(outflow.tx for outflow in outflows[:_MOST_NAMED])
    more = " and more" if len(outflows) > _MOST_NAMED else ""
    return {
        "Chain": alias_of(state.chain),
        "Stopped since": f"{state.stopped_at:%Y-%m-%d %H:%M:%S} UTC",
        "Why": state.stopped_reason,
        "By": stop.author if stop else "not known",
        "What left the escrow and is not booked": f"{named}{more}" if outflows else "nothing",
        "Differs from the configuration": state.mismatch or "no",
    }


def _stop(state: ChainState, _asked: Mapping[str, Any]) -> Proposal:
    if state.stopped_at is not None:
        raise OperationRefused(f"Signing on {alias_of(state.chain)} is stopped already: {state.stopped_reason}")
    return Proposal(STOP_CHAIN, "chain", state.chain, {"chain": state.chain}, list(_facts(state).items()), "")


def _start(state: ChainState, _asked: Mapping[str, Any]) -> Proposal:
    if state.stopped_at is None:
        raise OperationRefused(f"Signing on {alias_of(state.chain)} is not stopped.")
    arguments = {"chain": state.chain, "stopped_at": state.stopped_at.isoformat()}
    return Proposal(START_CHAIN, "chain", state.chain, arguments, list(_facts(state).items()), "")


STOP = Step(
    "Stop signing",
    "From now on no payment on these chains is approved: agents are refused with the code 503, which is logged. What "
    "was signed before is settled all the same.",
    _stop,
    _facts,
    is_urgent=True,
)
START = Step(
    "Start signing again",
    "Payments on these chains are approved again at once. First find out why signing was stopped: while money is "
    "missing or more is promised than held, the comparison with the ledger stops it again.",
    _start,
    _facts,
)
