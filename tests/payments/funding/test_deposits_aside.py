"""A deposit that names nobody is kept aside until staff credit it; a changed one is found."""

from decimal import Decimal

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, MovementKind
from ledger.operations import move_balance
from payments.funding.deposits import credit_deposit
from payments.funding.expected_holdings import find_deposits
from payments.models import Deposit, Withdrawal
from payments.reconciling.escrow_history import search_history
from tests.support.credited_deposits import balance, cursor, problems
from tests.support.deposits import TOKEN, make_deposit_aside, make_searched_chain, sighting
from tests.support.factories import make_agent, make_agent_of_old, new_name
from tests.support.payment_requests import make_service_on, pay_on


# --- Aside ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"named_agent": "nobody"}, "There is no agent of this name."),
        ({"named_agent": "x" * 1024}, "There is no agent of this name."),
        ({"named_agent": "\ufffd\n\u202e"}, "There is no agent of this name."),
        ({"asset": None, "amount": Decimal(2**256 - 1)}, f"The token {TOKEN} is not served."),
        ({"asset": Asset.EURC}, "in USDC, the deposit is in EURC."),
    ],
    ids=["unknown", "long", "unreadable", "token", "asset"],
)
def test_what_can_be_credited_to_nobody_is_kept_aside(agent, change, note):
    found = sighting(agent, **change)
    chain = make_searched_chain(found)

    assert search_history(chain.name, chain) == 1

    deposit = Deposit.objects.get(tx=found.tx)
    assert (deposit.state, deposit.agent, deposit.movement) == ("aside", None, None)
    assert deposit.note.endswith(note)
    assert (deposit.named_agent, deposit.amount) == (found.named_agent, found.amount)
    assert (balance(agent), cursor(chain)) == (1000, 100)


@pytest.mark.parametrize("change", [str.upper, " {}".format, "{}\n".format, lambda name: name[:-1]])
def test_an_agent_is_named_exactly_or_not_at_all(agent, change):
    chain = make_searched_chain(sighting(change(agent.id)))

    search_history(chain.name, chain)

    assert balance(agent) == 1000
    assert Deposit.objects.get(chain=chain.name).state == "aside"


def test_bytes_that_are_no_text_name_no_agent_that_looks_like_them(db):
    agent = make_agent_of_old(f"{new_name('agent')}\ufffd", asset=Asset.USDC)
    chain = make_searched_chain(sighting(agent))

    search_history(chain.name, chain)

    assert balance(agent) == 0
    assert Deposit.objects.get(chain=chain.name).state == "aside"


@pytest.fixture
def put_aside(db) -> Deposit:
    return make_deposit_aside()


def test_staff_credit_what_was_put_aside(put_aside, agent):
    returned = credit_deposit(put_aside.pk, agent_id=agent.id, by="fiona")

    put_aside.refresh_from_db()
    assert returned == put_aside
    assert (put_aside.state, put_aside.agent_id, balance(agent)) == ("credited", agent.id, 1007)
    assert put_aside.movement
    assert (put_aside.movement.author, put_aside.movement.reason) == ("fiona", put_aside.tx)
    assert put_aside.note == "There is no agent of this name."
    assert problems(agent) == []


def test_what_was_credited_is_not_credited_again(put_aside, agent):
    credit_deposit(put_aside.pk, agent_id=agent.id, by="fiona")

    with pytest.raises(OperationRefused, match=f"was credited to {agent.id} already"):
        credit_deposit(put_aside.pk, agent_id=make_agent().id, by="fiona")

    assert balance(agent) == 1007


def test_what_counts_as_moved_from_our_own_escrow_is_credited_to_nobody(put_aside, agent):
    """Anybody can write the reference of a move into a memo; the books count that deposit as surplus."""
    facts = {"reference": put_aside.named_agent, "chain": put_aside.chain, "asset": "USDC", "amount": 7}
    Withdrawal.objects.create(**facts, recipient="r", author="a", reason="r", created_at=utc_now())
    assert put_aside not in find_deposits()

    with pytest.raises(OperationRefused, match="adjust the balance"):
        credit_deposit(put_aside.pk, agent_id=agent.id, by="fiona")

    put_aside.refresh_from_db()
    assert (put_aside.state, balance(agent)) == ("aside", 1000)


def test_a_deposit_is_not_credited_to_whom_it_does_not_fit(put_aside, agent):
    eurc = make_agent(asset=Asset.EURC)
    for deposit_id, agent_id, sentence in (
        (put_aside.pk, "nobody", "There is no agent nobody"),
        (put_aside.pk, eurc.id, "in EURC, the deposit is in USDC"),
        (0, agent.id, "There is no deposit 0"),
    ):
        with pytest.raises(OperationRefused, match=sentence):
            credit_deposit(deposit_id, agent_id=agent_id, by="fiona")

    put_aside.refresh_from_db()
    assert (put_aside.state, balance(eurc)) == ("aside", 1000)


def test_a_token_that_is_not_served_is_credited_to_nobody(agent):
    found = sighting(agent, asset=None)
    chain = make_searched_chain(found)
    search_history(chain.name, chain)

    with pytest.raises(OperationRefused, match="a token that is not served"):
        credit_deposit(Deposit.objects.get(tx=found.tx).pk, agent_id=agent.id, by="fiona")


# --- Evidence ---------------------------------------------------------------------------------------------------------
def test_a_movement_without_its_deposit_is_found(agent):
    movement = move_balance(agent, kind=MovementKind.FUNDING, amount=Decimal(3), by="deposit", reason="0xabc")

    assert problems(agent) == [f"Movement {movement.id} credits a deposit that never came in."]


@pytest.mark.parametrize("change", [{"amount": Decimal(6)}, {"tx": "0xabc"}, {"chain": "another"}, {"asset": "EURC"}])
def test_a_movement_that_is_not_what_came_in_is_found(agent, change):
    found = sighting(agent)
    chain = make_searched_chain(found)
    search_history(chain.name, chain)
    Deposit.objects.filter(tx=found.tx).update(**change)

    (problem,) = problems(agent)
    assert "is not what came in with the deposit" in problem


def test_a_deposit_that_is_credited_by_a_payment_is_found(agent):
    found = sighting(agent)
    chain = make_searched_chain(found)
    search_history(chain.name, chain)
    payment = pay_on(chain, agent, make_service_on(chain))
    movement = BalanceMovement.objects.get(payment_id=payment.pk)
    credited = Deposit.objects.get(tx=found.tx)
    Deposit.objects.filter(pk=credited.pk).update(movement=movement)

    assert f"The deposit {credited} is credited by a movement that credits nothing." in problems(agent)
