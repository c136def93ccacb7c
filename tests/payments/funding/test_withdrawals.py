"""Money comes out: a withdrawal is booked, the owner is shown what to sign, and it is cancelled unless it landed."""

import json
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from eth_abi.abi import decode

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from ledger.models import BalanceMovement
from ledger.movements import find_newest_by_hand
from payments.funding.owner_transactions import transfer_to_sign
from payments.funding.withdrawals import book_withdrawal, cancel_withdrawal, find_open_withdrawals
from payments.models import Withdrawal
from policy.models import Agent
from tests.support.evm_escrow import call, escrow, send_as_owner, token
from tests.support.factories import make_agent, new_address
from tests.support.invariants import check_agent
from tests.support.local_ids import LOCALNET, SOLANA_LOCALNET
from tests.support.localnets import EVM, SOLANA
from tests.support.reconciliations import make_comparison
from tests.support.scenes import at_once

WHY: dict[str, Any] = {"by": "fiona", "reason": "Ticket 7"}


def book(agent: Agent, amount: str = "1.5", **changes: Any) -> Withdrawal:
    options = {"chain": LOCALNET, "recipient": new_address(), **WHY, **changes}
    return book_withdrawal(agent.id, amount=Decimal(amount), **options)


def balance(agent: Agent) -> Any:
    return Agent.objects.get(pk=agent.pk).balance


def land(withdrawal: Withdrawal) -> None:
    """Let the tokens have left, as the search of the escrow's history says."""
    Withdrawal.objects.filter(pk=withdrawal.pk).update(landed_block=7, landed_tx="0x1")


# --- Booking ----------------------------------------------------------------------------------------------------------
def test_a_withdrawal_takes_from_the_balance_and_names_what_is_to_leave(agent):
    recipient = new_address()

    withdrawal = book(agent, "400.5", recipient=recipient)

    movement = BalanceMovement.objects.get(tokens=withdrawal)
    assert (movement.kind, movement.amount, movement.chain) == ("withdrawal", Decimal("-400.5"), LOCALNET)
    assert (withdrawal.state, withdrawal.escrow, withdrawal.amount) == ("open", escrow(), Decimal("400.5"))
    assert withdrawal.recipient.lower() == recipient
    assert (withdrawal.agent_id, withdrawal.author, withdrawal.reason) == (agent.id, "fiona", "Ticket 7")
    assert balance(agent) == Decimal("599.5")
    assert withdrawal in find_open_withdrawals()
    check_agent(agent.id)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"amount": "1000.01"}, r"The balance of .* is 1000\.00 USDC"),
        ({"amount": "0"}, "greater than zero"),
        ({"amount": "-1"}, "greater than zero"),
        ({"amount": "0.0000001"}, "finer"),
        ({"chain": "eip155:8453"}, "No escrow of USDC is served on eip155:8453"),
        ({"recipient": "0x12"}, "Recipient: An address on an EVM chain is 0x and 40"),
        ({"recipient": "0x" + "0" * 40}, "Recipient: The zero address"),
        ({"recipient": "0x" + "1" * 43}, "Recipient: An address"),
        ({"recipient": new_address(), "chain": SOLANA_LOCALNET}, "Recipient: An address on Solana"),
        ({"recipient": ""}, "Recipient"),
        ({"reason": " "}, "Give the author and a reason"),
        ({"by": ""}, "Give the author"),
        ({"after": 10**9}, "booked meanwhile"),
    ],
)
def test_what_cannot_be_withdrawn_is_refused_and_books_nothing(agent, wrong, sentence):
    with pytest.raises(OperationRefused, match=sentence):
        book(agent, **wrong)

    assert balance(agent) == 1000
    assert not Withdrawal.objects.filter(agent=agent).exists()


@pytest.mark.parametrize("whose", [escrow, lambda: token(Asset.USDC)], ids=["escrow", "token"])
def test_tokens_are_not_sent_to_a_contract_of_ours(agent, whose):
    with pytest.raises(OperationRefused, match="where the tokens would be lost"):
        book(agent, recipient=whose())


def test_nobody_withdraws_for_an_agent_that_does_not_exist(db):
    with pytest.raises(OperationRefused, match="There is no agent nobody"):
        book(Agent(id="nobody"))


def test_an_escrow_pays_out_no_more_than_it_held_when_it_was_looked_at(agent):
    make_comparison(LOCALNET, holds=Decimal(10))
    book(agent, "4")

    with pytest.raises(OperationRefused, match=r"holds 10\.00 USDC on this chain, of which 4\.00 are about to leave"):
        book(agent, "6.01")
    book(agent, "6")


def test_a_form_that_is_sent_twice_is_booked_once(agent):
    seen = find_newest_by_hand(agent.id)
    book(agent, after=seen)

    with pytest.raises(OperationRefused, match="booked meanwhile"):
        book(agent, after=seen)


# --- Cancelling -------------------------------------------------------------------------------------------------------
def test_a_withdrawal_that_did_not_land_is_booked_back_once(agent):
    withdrawal = book(agent, "10")

    cancelled = cancel_withdrawal(withdrawal.reference, by="fred", reason="Wrong address")

    movement = BalanceMovement.objects.filter(agent=agent)[0]
    assert (cancelled.state, balance(agent)) == ("cancelled", 1000)
    assert (movement.kind, movement.amount, movement.chain, movement.author) == ("adjustment", 10, LOCALNET, "fred")
    assert movement.reason == f"{withdrawal.reference} is cancelled: Wrong address"
    with pytest.raises(OperationRefused, match="was cancelled before"):
        cancel_withdrawal(withdrawal.reference, by="fred", reason="Again")
    check_agent(agent.id)


def test_what_has_landed_is_not_booked_back(agent):
    withdrawal = book(agent, "10")
    land(withdrawal)

    with pytest.raises(OperationRefused, match="has landed in block 7"):
        cancel_withdrawal(withdrawal.reference, **WHY)
    assert balance(agent) == 990


@pytest.mark.parametrize("missing", [{"by": " "}, {"reason": ""}])
def test_who_cancels_says_why(agent, missing):
    withdrawal = book(agent)

    with pytest.raises(OperationRefused, match="Say who cancels"):
        cancel_withdrawal(withdrawal.reference, **{**WHY, **missing})


def test_there_is_nothing_to_cancel_without_a_withdrawal(db):
    with pytest.raises(OperationRefused, match="There is no withdrawal wdr_1"):
        cancel_withdrawal("wdr_1", **WHY)


@pytest.mark.usefixtures("committed")
def test_withdrawals_and_cancellations_at_once_never_take_or_give_back_twice():
    agent = make_agent(balance="5")
    former = book(agent, "1")

    def attempt(act: Any) -> bool:
        try:
            act()
        except OperationRefused:
            return False
        return True

    acts: list[Any] = [partial(book, agent, "1")] * 6 + [partial(cancel_withdrawal, former.reference, **WHY)] * 3
    done = at_once([partial(attempt, act) for act in acts])

    booked, cancelled = done[:6].count(True), done[6:].count(True)
    assert (cancelled, balance(agent)) == (1, 5 - booked)
    check_agent(agent.id)


# --- What the owner signs ---------------------------------------------------------------------------------------------
def test_the_owner_of_an_evm_escrow_is_shown_its_call_and_the_file_for_a_safe(agent):
    withdrawal = book(agent, "1.500001")

    shown = transfer_to_sign(withdrawal)

    called, batch = shown["call"], json.loads(shown["safe"])
    assert (called["to"], called["value"], called["chainId"]) == (escrow(), "0", 31337)
    assert called["data"] == call(
        "withdraw(address,address,uint256)", token(Asset.USDC), withdrawal.recipient, 1_500_001
    )
    assert decode(["address", "address", "uint256"], bytes.fromhex(called["data"][10:]))[2] == 1_500_001
    assert (batch["version"], batch["chainId"]) == ("1.0", "31337")
    (inner,) = batch["transactions"]
    assert [inner[name] for name in ("to", "value", "data")] == [called[name] for name in ("to", "value", "data")]


def test_what_the_owner_signs_moves_the_tokens(agent):
    withdrawal = book(agent, "0.25")
    held = EVM.held(Asset.USDC)

    shown = transfer_to_sign(withdrawal)["call"]
    send_as_owner(shown["to"], shown["data"])

    assert held - EVM.held(Asset.USDC) == 250_000
    assert EVM.balance_of(Asset.USDC, withdrawal.recipient) == 250_000


def test_there_is_nothing_to_sign_for_what_has_ended(agent):
    landed, cancelled = book(agent), book(agent)
    land(landed)
    cancel_withdrawal(cancelled.reference, **WHY)

    for withdrawal, state in ((landed, "landed"), (cancelled, "cancelled")):
        withdrawal.refresh_from_db()
        with pytest.raises(OperationRefused, match=f"is {state}: there is nothing to sign"):
            transfer_to_sign(withdrawal)


def test_there_is_nothing_to_sign_on_a_chain_that_is_not_served_any_more(agent, settings):
    withdrawal = book(agent)
    settings.CHAINS = {}

    with pytest.raises(OperationRefused, match="is not served on"):
        transfer_to_sign(withdrawal)


def test_a_withdrawal_on_solana_names_an_address_there(agent):
    recipient = SOLANA.new_address()

    assert book(agent, chain=SOLANA_LOCALNET, recipient=recipient).recipient == recipient
