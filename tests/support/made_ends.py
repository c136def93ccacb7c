"""Let a payment fail without a chain that refuses it: for tests of what is told of a failed payment."""

from django.db import transaction

from payments.lifecycle import SettlementState
from payments.models import Payment, Settlement
from payments.settling.state_changes import StateChange
from payments.settling.transaction_rows import read_rows
from payments.settling.transitions import change_states, fail
from policy.parents import lock_agent


def fail_unsent(payment_id: str) -> None:
    """Let a payment on Solana fail that nobody has sent. On a chain with nonces its own would stay unused, and whatever
    settles next on these tests' database would wait for it, or would send what was given back.
    """
    (row,) = read_rows(Settlement.objects.filter(payments=payment_id))
    assert (row.nonce, row.state) == (None, SettlementState.SIGNED)
    assert fail_by(StateChange(row, SettlementState.FAILED, "Reverted."))


def fail_by(end: StateChange) -> int:
    """Fail a payment together with its transaction, as where nobody can pay it any more; returns how many failed."""
    (leg,) = end.settlement.legs
    with transaction.atomic():
        lock_agent(leg.agent_id)
        return fail(Payment.objects.get(pk=leg.payment_id), reason=end.reason) if change_states([end]) else 0
