"""What leaves the escrow of a fake chain, and the search for it."""

from decimal import Decimal
from typing import Any

import pytest

from chains.port import OutflowEvent, VoidEvent
from foundation.kernel.errors import PolicySignerUnavailable
from foundation.kernel.times import utc_now
from payments.models import DepositCursor, Outflow, Payment, Withdrawal
from payments.reconciling.escrow_history import search_history
from tests.support.factories import new_address, new_name
from tests.support.scenes import Scene
from tests.support.scripted_chain import outflow_of


def outflow(scene: Scene, payment: Payment, **changes: Any) -> OutflowEvent:
    """Say what the history tells of a transaction in the next block that nobody here knows."""
    recipient = payment.recipient if scene.chain.has_nonces else ""
    facts = {"recipient": recipient, **changes}
    return outflow_of(payment, new_name("tx"), scene.chain.finality.block_number + 1, **facts)


def take_out(scene: Scene, payment: Payment, **changes: Any) -> OutflowEvent:
    """Let a transaction that nobody here knows have paid for a payment, in the newest final block."""
    found = outflow(scene, payment, **changes)
    scene.chain.outflows.append(found)
    scene.chain.finalise(found.block_number)
    return found


def search(scene: Scene) -> None:
    search_history(scene.chain.name, scene.chain)


def search_again(scene: Scene) -> None:
    """Search all blocks once more, as after a restored backup."""
    DepositCursor.objects.filter(chain=scene.chain.name).update(block_number=0)
    search(scene)


def outflows(scene: Scene) -> list[Outflow]:
    return list(Outflow.objects.filter(chain=scene.chain.name).order_by("id"))


def assert_stopped_by(scene: Scene, found: OutflowEvent | VoidEvent, why: str) -> None:
    """See that it was written down once, with its reason, and that nothing is signed on the chain any more."""
    (kept,) = outflows(scene)
    assert (kept.tx, kept.log_index, kept.block_number) == (found.tx, found.log_index, found.block_number)
    assert (kept.escrow_id, kept.why) == (found.escrow_id, why)
    assert (kept.movement, kept.booked_at, kept.booked_by) == (None, None, "")
    if isinstance(found, OutflowEvent):
        assert (kept.token, kept.asset, kept.recipient) == (found.token, found.asset, found.recipient)
        assert kept.amount == found.amount
    else:
        assert (kept.token, kept.asset, kept.amount, kept.recipient) == ("", None, 0, "")
    assert scene.stopped_reason() == f"The ledger does not know {found.tx}. {why}"
    with pytest.raises(PolicySignerUnavailable):
        scene.pay()


def assert_all_known(scene: Scene) -> None:
    assert (outflows(scene), scene.stopped_reason()) == ([], "")


def withdrawal(scene: Scene, **changes: Any) -> Withdrawal:
    """Book a withdrawal of 25 USDC, as the command does before its owner signs."""
    facts = {"chain": scene.chain.name, "escrow": scene.chain.address, "asset": "USDC", "amount": Decimal(25)}
    facts |= {"reference": new_name("wd"), "recipient": new_address(), "author": "test", "created_at": utc_now()}
    return Withdrawal.objects.create(**(facts | changes))


def landed(booked: Withdrawal) -> tuple[str, int | None]:
    booked.refresh_from_db()
    return booked.landed_tx, booked.landed_block
