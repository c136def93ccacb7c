"""A withdrawal of ours is found once in the escrow's history, and is no outflow."""

from decimal import Decimal
from typing import Any

import pytest

from chains.port import OutflowEvent
from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.models import Withdrawal
from tests.support.factories import new_address
from tests.support.outflows import (
    assert_all_known,
    assert_stopped_by,
    landed,
    search,
    search_again,
    take_out,
    withdrawal,
)
from tests.support.scenes import Scene


def land(scene: Scene, booked: Withdrawal, **changes: Any) -> OutflowEvent:
    """Let a withdrawal leave the escrow: an EVM chain tells to whom, Solana under which memo."""
    named = {"escrow_id": "", "recipient": booked.recipient}
    if not scene.chain.has_nonces:
        named = {"escrow_id": booked.reference, "recipient": ""}
    facts = named | {"asset": Asset(booked.asset), "amount": booked.amount} | changes
    return take_out(scene, scene.pay(), **facts)


def test_a_withdrawal_of_ours_lands_once_and_is_no_outflow(scene):
    booked, other = withdrawal(scene), withdrawal(scene)
    found = land(scene, booked)

    search(scene)
    search_again(scene)

    assert landed(booked) == (found.tx, found.block_number)
    assert landed(other) == ("", None)
    assert_all_known(scene)


def test_two_withdrawals_that_are_alike_land_each_once_and_a_third_is_an_outflow(counting):
    to = new_address()
    alike = [withdrawal(counting, recipient=to) for _ in range(2)]
    found = [land(counting, alike[0]) for _ in range(3)]

    search(counting)

    assert [landed(one)[0] for one in alike] == [found[0].tx, found[1].tx]
    assert_stopped_by(counting, found[2], "It is neither a payment nor a withdrawal of ours.")


@pytest.mark.parametrize("changes", [{"amount": Decimal("25.01")}, {"asset": Asset.EURC}], ids=["amount", "asset"])
def test_what_is_not_what_was_booked_is_no_withdrawal(scene, changes):
    booked = withdrawal(scene)
    found = land(scene, booked, **changes)

    search(scene)

    assert landed(booked) == ("", None)
    assert_stopped_by(scene, found, "It is neither a payment nor a withdrawal of ours.")


def test_what_went_to_somebody_else_is_no_withdrawal(counting):
    booked = withdrawal(counting)
    found = land(counting, booked, recipient=new_address())
    search(counting)
    assert landed(booked) == ("", None)
    assert_stopped_by(counting, found, "It is neither a payment nor a withdrawal of ours.")


def test_a_withdrawal_that_was_cancelled_and_lands_is_an_outflow(scene):
    booked = withdrawal(scene, cancelled_at=utc_now())
    found = land(scene, booked)

    search(scene)

    assert landed(booked) == ("", None)
    assert_stopped_by(scene, found, "It is neither a payment nor a withdrawal of ours.")


def test_a_withdrawal_of_another_chain_is_none_here(scene):
    booked = withdrawal(scene, chain="another")
    found = land(scene, booked)
    search(scene)
    assert landed(booked) == ("", None)
    assert_stopped_by(scene, found, "It is neither a payment nor a withdrawal of ours.")
