"""What left an escrow and the ledger did not know is booked by a person: as an agent's money, or as a loss."""

from decimal import Decimal
from typing import Any

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from ledger.models import BalanceMovement
from payments.models import Outflow
from payments.reconciling.outflow_booking import book_outflow, describe, find_open_outflows
from policy.models import Agent
from tests.support.factories import make_agent
from tests.support.invariants import check_agent
from tests.support.reconciliations import EscrowScene, level, make_comparison, served
from tests.support.scenes import at_once, status_of, transaction_of

WHY: dict[str, Any] = {"by": "fiona", "reason": "The backup had forgotten it"}


@pytest.fixture
def scene(db: None, has_nonces: bool) -> EscrowScene:
    """1000 USDC of an agent, booked and held on a chain of either kind."""
    return EscrowScene(has_nonces=has_nonces)


def balance(agent: Agent) -> Any:
    return Agent.objects.get(pk=agent.pk).balance


def test_an_outflow_that_was_an_agents_money_leaves_its_balance(scene):
    outflow = scene.lose("10")

    booked = book_outflow(outflow.pk, agent_id=scene.agent.id, **WHY)

    movement = BalanceMovement.objects.get(outflow=outflow)
    assert (movement.kind, movement.amount, movement.chain) == ("withdrawal", -10, scene.chain.name)
    assert (booked.state, booked.booked_by, booked.note) == ("booked", "fiona", "The backup had forgotten it")
    assert balance(scene.agent) == 990
    assert outflow not in find_open_outflows()
    check_agent(scene.agent.id)


def test_a_loss_leaves_all_balances_as_they_are(scene):
    outflow = scene.lose("10")

    booked = book_outflow(outflow.pk, agent_id=None, **WHY)

    assert (booked.state, balance(scene.agent)) == ("booked", 1000)
    assert booked.movement is None


def test_after_an_agents_money_is_booked_there_is_as_much_promised_as_held(scene, settings):
    scene.hold("990")
    make_comparison(scene.chain.name, holds=Decimal(1000), block_number=scene.block)
    level(settings, scene.chain.name)
    outflow = scene.lose("10")
    scene.next_block()
    scene.reconcile()
    assert "10.00 too much" in scene.state.stopped_reason

    book_outflow(outflow.pk, agent_id=scene.agent.id, **WHY)

    scene.state.__class__.objects.filter(pk=scene.chain.name).update(stopped_reason="", stopped_at=None)
    assert scene.reconcile().verdict == "ok"
    assert scene.state.stopped_reason == ""


@pytest.mark.parametrize("agent_id", [None, "the agent"])
def test_an_outflow_is_booked_once(scene, agent_id):
    outflow = scene.lose("10")
    book_outflow(outflow.pk, agent_id=None, **WHY)

    with pytest.raises(OperationRefused, match="was booked already: The backup had forgotten it"):
        book_outflow(outflow.pk, agent_id=agent_id and scene.agent.id, **WHY)
    assert balance(scene.agent) == 1000


def test_an_agent_bears_what_its_balance_covers_and_what_is_of_its_asset(scene):
    other = make_agent(asset=Asset.EURC)
    large, voided = scene.lose("1000.01"), scene.lose("0", asset=None)
    foreign = scene.lose("5000", asset=None, token="0x" + "5" * 40)

    for outflow, agent_id, sentence in (
        (large, scene.agent.id, r"The balance of .* is 1000\.00 USDC"),
        (large, other.id, "is in EURC; the outflow is of USDC"),
        (voided, scene.agent.id, "the outflow is of nothing that is served"),
        (foreign, scene.agent.id, "the outflow is of nothing that is served"),
        (large, "nobody", "There is no agent nobody"),
    ):
        with pytest.raises(OperationRefused, match=sentence):
            book_outflow(outflow.pk, agent_id=agent_id, **WHY)

    assert set(find_open_outflows(scene.chain.name)) == {large, voided, foreign}


@pytest.mark.parametrize("missing", [{"by": ""}, {"reason": " "}, {"reason": "x" * 501}])
def test_who_books_says_what_it_was(scene, missing):
    with pytest.raises(OperationRefused, match="Give the author, and what it was"):
        book_outflow(scene.lose("1").pk, agent_id=None, **{**WHY, **missing})


def test_what_nobody_saw_is_not_booked(db):
    with pytest.raises(OperationRefused, match="There is no outflow 9"):
        book_outflow(999_999_999, agent_id=None, **WHY)


@pytest.mark.parametrize("is_loss", [True, False])
def test_a_payment_whose_id_the_escrow_used_up_otherwise_is_given_back_first(db, settings, is_loss):
    scene = EscrowScene()
    settings.CHAINS = served(scene.chain.name)
    payment = scene.pay_and_send("10")
    outflow = scene.lose("990", escrow_id=payment.escrow_id)

    book_outflow(outflow.pk, agent_id=None if is_loss else scene.agent.id, **WHY)

    assert status_of(payment) == "failed"
    assert balance(scene.agent) == (1000 if is_loss else 10)
    scene.chain.include(transaction_of(payment), failure="Reverted: the id is used")
    scene.confirm()
    check_agent(scene.agent.id)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "7.00 USDC left for a stranger. It is no payment of ours."),
        ({"recipient": ""}, "7.00 USDC left for an account that the chain does not tell."),
        ({"asset": None, "token": "0xt"}, "7 units of 0xt left for a stranger."),
        ({"amount": Decimal(0)}, "It moved nothing. It is no payment of ours."),
    ],
)
def test_what_left_is_described(scene, fields, said):
    assert describe(scene.lose(**{"amount": "7", **fields})).startswith(said)


@pytest.mark.usefixtures("committed")
def test_an_outflow_that_two_people_book_at_once_is_booked_once():
    scene = EscrowScene()
    outflow = scene.lose("10")

    def attempt() -> bool:
        try:
            book_outflow(outflow.pk, agent_id=scene.agent.id, **WHY)
        except OperationRefused:
            return False
        return True

    assert at_once([attempt] * 4).count(True) == 1
    assert balance(scene.agent) == 990
    assert Outflow.objects.get(pk=outflow.pk).state == "booked"
