"""What leaves the escrows beside payments: staff see what the owner signs, cancel it, and book what nobody knew."""

from decimal import Decimal
from typing import Any

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from payments.funding.withdrawals import book_withdrawal
from payments.models import Outflow, Withdrawal
from policy.models import Agent
from tests.support.evm_escrow import escrow
from tests.support.factories import new_address, new_name
from tests.support.local_ids import LOCALNET, SOLANA_LOCALNET
from tests.support.localnets import SOLANA

WITHDRAWAL, OUTFLOW = "payments_withdrawal", "payments_outflow"


@pytest.fixture
def withdrawal(agent: Agent) -> Withdrawal:
    """10 USDC of an agent, about to leave the escrow on the EVM chain."""
    return book_withdrawal(
        agent.id, amount=Decimal(10), chain=LOCALNET, recipient=new_address(), by="fiona", reason="Ticket 7"
    )


@pytest.fixture
def outflow(db: None) -> Outflow:
    """3 USDC that left, nobody knows why."""
    row: Outflow = Outflow.objects.create(
        chain=LOCALNET, tx=new_name("tx"), log_index=0, block_number=1, asset=Asset.USDC, amount=Decimal(3),
        recipient="a <stranger>", why="It is no payment of ours.", found_at=utc_now(),
    )  # fmt: skip
    return row


def balance(agent: Agent) -> Any:
    return Agent.objects.get(pk=agent.pk).balance


# --- Withdrawals ------------------------------------------------------------------------------------------------------
def test_the_page_of_a_withdrawal_shows_what_the_owner_signs(auditor, withdrawal):
    page = auditor.get(f"{WITHDRAWAL}_change", str(withdrawal.pk)).content.decode()

    for shown in (withdrawal.reference, "10.00", escrow(), withdrawal.recipient, "Ticket 7", 'class="badge open"'):
        assert shown in page
    assert "0xd9caed12" in page  # withdraw(address,address,uint256)
    assert "Transaction Builder" in page


def test_what_expires_is_made_on_the_command_line(auditor, agent):
    withdrawal = book_withdrawal(
        agent.id, amount=Decimal(1), chain=SOLANA_LOCALNET, recipient=SOLANA.new_address(), by="f", reason="R"
    )

    page = auditor.get(f"{WITHDRAWAL}_change", str(withdrawal.pk)).content.decode()

    assert f"manage.py withdraw_funds --show {withdrawal.reference}" in page


def test_finance_cancels_a_withdrawal_with_a_reason(finance, agent, withdrawal):
    asked = finance.try_to_act(WITHDRAWAL, "cancel", str(withdrawal.pk)).content.decode()
    assert "First make sure" in asked
    assert balance(agent) == 990

    said = finance.carry_out(WITHDRAWAL, "cancel", str(withdrawal.pk), reason="Wrong address")

    assert (said, balance(agent)) == ([f"Cancelled {withdrawal}."], 1000)
    page = finance.get(f"{WITHDRAWAL}_change", str(withdrawal.pk)).content.decode()
    assert "there is nothing to sign" in page


def test_withdrawals_are_filtered_by_state(auditor, withdrawal):
    assert withdrawal.reference in auditor.get(f"{WITHDRAWAL}_changelist", state="open").content.decode()
    assert withdrawal.reference not in auditor.get(f"{WITHDRAWAL}_changelist", state="over").content.decode()
    assert withdrawal.reference in auditor.get(f"{WITHDRAWAL}_changelist", q=withdrawal.reference).content.decode()


def test_an_auditors_forged_cancellation_is_refused(auditor, agent, withdrawal):
    response = auditor.try_to_act(WITHDRAWAL, "cancel", str(withdrawal.pk), reason="R")

    assert (response.status_code, balance(agent)) == (403, 990)


# --- Outflows ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("is_loss", [True, False])
def test_finance_books_an_outflow(finance, agent, outflow, is_loss):
    asked = finance.try_to_act(OUTFLOW, "book", str(outflow.pk)).content.decode()
    assert "3.00 USDC left for a &lt;stranger&gt;. It is no payment of ours." in asked

    said = finance.carry_out(OUTFLOW, "book", str(outflow.pk), agent="" if is_loss else agent.id, reason="Found out")

    outflow.refresh_from_db()
    assert said == [f"Booked {outflow}."]
    assert (outflow.state, outflow.booked_by, outflow.note) == ("booked", finance.name, "Found out")
    assert balance(agent) == (1000 if is_loss else 997)
    assert "Found out" in finance.get(f"{OUTFLOW}_change", str(outflow.pk)).content.decode()


@pytest.mark.parametrize("agent_id", ["nobody", " "])
def test_an_outflow_is_not_booked_to_nobody(finance, outflow, agent_id):
    said = finance.carry_out(OUTFLOW, "book", str(outflow.pk), agent=agent_id, reason="Found out")

    outflow.refresh_from_db()
    assert (said, outflow.state) == ([f"There is no agent {agent_id}."], "open")


def test_an_auditor_sees_outflows_and_books_none(auditor, outflow):
    assert outflow.tx in auditor.get(f"{OUTFLOW}_changelist", state="open").content.decode()
    assert outflow.tx not in auditor.get(f"{OUTFLOW}_changelist", state="over").content.decode()

    response = auditor.try_to_act(OUTFLOW, "book", str(outflow.pk), agent="", reason="R")

    outflow.refresh_from_db()
    assert (response.status_code, outflow.state) == (403, "open")
