"""Let a payment fail without a chain that refuses it: for tests of what is told of a failed payment."""

from payments.lifecycle import SettlementState
from payments.models import Settlement
from payments.settling.transitions import StateChange, fail


def fail_unsent(payment_id: str) -> None:
    """Let a payment on Solana fail that nobody has sent. On a chain with nonces its own would stay unused, and whatever
    settles next on these tests' database would wait for it, or would send what was given back.
    """
    row = Settlement.objects.select_related("payment").get(payment_id=payment_id)
    assert row.payment is not None
    assert (row.nonce, row.state) == (None, SettlementState.SIGNED)
    assert fail(row.payment, reason="Reverted.", ended=StateChange(row, SettlementState.FAILED, "Reverted."))
