"""Credit deposits that were put aside, and move balances by hand."""

from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from foundation.console.figures import show_amount
from foundation.kernel.assets import Asset
from ledger.models import BalanceMovement
from payments.funding.credits import find_surplus
from payments.models import Deposit, Reconciliation
from policy.models import Agent
from tests.foundation.console.conftest import recorded, sealed_in
from tests.support.deposits import make_deposit_aside
from tests.support.factories import make_agent
from tests.support.local_ids import LOCALNET
from tests.support.reconciliations import level, make_comparison

AGENT, DEPOSIT = "policy_agent", "payments_deposit"


def newest(agent: Agent) -> BalanceMovement:
    return BalanceMovement.objects.filter(agent=agent)[0]


# --- Deposits ---------------------------------------------------------------------------------------------------------
def test_what_is_credited_is_shown_first_and_nothing_happens_yet(finance):
    deposit = make_deposit_aside("somebody <else>", "7.5")

    page = finance.try_to_act(DEPOSIT, "credit", str(deposit.pk)).content.decode()

    deposit.refresh_from_db()
    assert deposit.state == "aside"
    for shown in ("7.50 USDC", "somebody &lt;else&gt;", deposit.tx, deposit.depositor, deposit.note):
        assert shown in page


def test_finance_credits_what_was_put_aside(finance, agent):
    deposits = [make_deposit_aside(), make_deposit_aside()]

    said = finance.carry_out(DEPOSIT, "credit", *(str(one.pk) for one in deposits), agent=agent.id)

    assert sorted(said) == sorted(f"Credited {one} to {agent.id}." for one in deposits)
    assert Agent.objects.get(pk=agent.pk).balance == 1014
    for deposit in Deposit.objects.filter(pk__in=[one.pk for one in deposits]).select_related("movement"):
        assert deposit.movement
        assert (deposit.state, deposit.agent_id, deposit.movement.author) == ("credited", agent.id, finance.name)
        assert recorded(str(deposit.pk)) == [("deposit.credited", finance.name)]


def test_a_deposit_that_was_credited_already_is_not_credited_again(finance, agent):
    deposit = make_deposit_aside()
    finance.carry_out(DEPOSIT, "credit", str(deposit.pk), agent=agent.id)

    said = finance.carry_out(DEPOSIT, "credit", str(deposit.pk), agent=make_agent().id)

    assert said == [f"The deposit {deposit} was credited to {agent.id} already."]


@pytest.mark.parametrize("name", ["nobody", " ", "x" * 255])
def test_a_deposit_is_not_credited_to_nobody(finance, name):
    deposit = make_deposit_aside()

    assert finance.carry_out(DEPOSIT, "credit", str(deposit.pk), agent=name) == [f"There is no agent {name}."]

    deposit.refresh_from_db()
    assert deposit.state == "aside"


@pytest.mark.parametrize("name", ["", "x" * 256])
def test_what_is_no_name_is_asked_for_again(finance, name):
    page = finance.try_to_act(DEPOSIT, "credit", str(make_deposit_aside().pk), agent=name)

    assert page.status_code == 200
    assert "errorlist" in page.content.decode()


def test_an_agent_whose_name_has_spaces_is_named_with_them(finance, agent):
    said = finance.carry_out(DEPOSIT, "credit", str(make_deposit_aside().pk), agent=f" {agent.id}")

    assert said == [f"There is no agent  {agent.id}."]


@pytest.mark.parametrize("member", ["tx", "named_agent", "agent_id"])
def test_a_deposit_is_found_by_its_transaction_its_name_and_its_agent(finance, auditor, agent, member):
    deposit, other = make_deposit_aside("a name of its own"), make_deposit_aside()
    finance.carry_out(DEPOSIT, "credit", str(deposit.pk), agent=agent.id)
    deposit.refresh_from_db()

    page = auditor.get(f"{DEPOSIT}_changelist", q=getattr(deposit, member)).content.decode()

    assert deposit.tx in page
    assert other.tx not in page


def test_deposits_are_filtered_by_state(auditor):
    deposit = make_deposit_aside()

    assert deposit.tx in auditor.get(f"{DEPOSIT}_changelist", state__exact="aside").content.decode()
    assert deposit.tx not in auditor.get(f"{DEPOSIT}_changelist", state__exact="credited").content.decode()


def test_the_page_of_a_deposit_says_who_credited_it_and_its_token_if_that_is_unknown(finance, auditor, agent):
    deposit, foreign = make_deposit_aside(), make_deposit_aside(asset=None, amount="5000000")
    finance.carry_out(DEPOSIT, "credit", str(deposit.pk), agent=agent.id)

    assert finance.name in auditor.get(f"{DEPOSIT}_change", str(deposit.pk)).content.decode()
    page = auditor.get(f"{DEPOSIT}_change", str(foreign.pk)).content.decode()
    assert "5000000 units of an unknown token" in page
    assert foreign.token in page


def test_the_list_of_deposits_asks_no_question_per_row(auditor):
    def count() -> int:
        with CaptureQueriesContext(connection) as queries:
            auditor.get(f"{DEPOSIT}_changelist")
        return len(queries)

    make_deposit_aside()
    few = count()
    for _ in range(5):
        make_deposit_aside()

    assert count() == few


def test_an_auditors_forged_credit_is_refused(auditor, agent):
    deposit = make_deposit_aside()

    response = auditor.try_to_act(DEPOSIT, "credit", str(deposit.pk), agent=agent.id)

    deposit.refresh_from_db()
    assert (response.status_code, deposit.state) == (403, "aside")


# --- Balances ---------------------------------------------------------------------------------------------------------
TO = "0x" + "a1" * 20


@pytest.fixture
def covered(agent: Agent, settings: Any) -> Agent:
    """An agent with 1000 USDC; the escrow on the EVM chain holds 20 that nobody was promised."""
    chains = settings.CHAINS
    make_comparison(LOCALNET, holds=Decimal(20), block_number=10**9)
    level(settings, LOCALNET, surplus="20")
    settings.CHAINS |= {LOCALNET: chains[LOCALNET]}
    surplus = find_surplus(LOCALNET, Asset.USDC)
    assert surplus is not None
    Reconciliation.objects.filter(chain=LOCALNET).update(holds=F("holds") + 20 - surplus)
    return agent


@pytest.mark.parametrize(
    ("action", "form", "moved"),
    [
        ("adjust", {"amount": "-0.5"}, ("adjustment", Decimal("-0.5"))),
        ("adjust", {"amount": "+2"}, ("adjustment", Decimal(2))),
        ("withdraw", {"amount": "1.000001", "recipient": TO}, ("withdrawal", Decimal("-1.000001"))),
    ],
)
def test_finance_moves_a_balance_with_name_and_reason(finance, covered, action, form, moved):
    asked = finance.try_to_act(AGENT, action, covered.id)
    assert "1,000.00 USDC" in asked.content.decode()
    shown = finance.try_to_act(AGENT, action, covered.id, **form, chain=LOCALNET).content.decode()
    assert show_amount(1000 + moved[1]) in shown
    assert BalanceMovement.objects.filter(agent=covered).count() == 1

    finance.carry_out(AGENT, action, covered.id, **form, chain=LOCALNET, reason="Ticket 7")

    movement = newest(covered)
    assert (movement.kind, movement.amount, movement.chain) == (*moved, LOCALNET)
    assert (movement.author, movement.reason) == (finance.name, "Ticket 7")
    assert "Ticket 7" in finance.get(f"{AGENT}_change", covered.id).content.decode()


def test_finance_does_not_adjust_a_balance_with_other_customers_money(finance, covered):
    (said,) = finance.carry_out(AGENT, "adjust", covered.id, amount="1000", chain=LOCALNET)

    assert said.startswith("1000.00 USDC are not covered: the surplus of the escrow on")
    assert Agent.objects.get(pk=covered.pk).balance == 1000


def test_a_form_that_is_sent_twice_is_booked_once(finance, agent):
    form = {"amount": "5", "chain": LOCALNET, "recipient": TO}
    form = {"reason": "Ticket 7", "sealed": sealed_in(finance.try_to_act(AGENT, "withdraw", agent.id, **form))}

    (booked,) = finance.act(AGENT, "withdraw", agent.id, **form)
    assert booked.startswith("Booked the withdrawal wdr_")
    assert booked.endswith("of 5.00 USDC. Its page shows what the owner of the escrow has to sign.")
    (said,) = finance.act(AGENT, "withdraw", agent.id, **form)

    assert said.endswith("was booked meanwhile. Check the balance again.")
    assert Agent.objects.get(pk=agent.pk).balance == 995


@pytest.mark.parametrize(
    ("action", "wrong"),
    [
        ("withdraw", {"amount": "-1"}),
        ("withdraw", {"amount": "0"}),
        ("withdraw", {"amount": "0.0000001"}),
        ("withdraw", {"amount": ""}),
        ("withdraw", {"chain": ""}),
        ("withdraw", {"recipient": ""}),
        ("withdraw", {"recipient": "0x12"}),
        ("withdraw", {"chain": "eip155:1"}),
        ("adjust", {"amount": "1e3"}),
        ("adjust", {"amount": "-0"}),
        ("adjust", {"chain": "moon"}),
        ("adjust", {"chain": ""}),
    ],
)
def test_a_form_that_is_filled_in_wrongly_books_nothing(finance, agent, action, wrong):
    form = {"amount": "5", "chain": LOCALNET, "recipient": TO, **wrong}

    response = finance.try_to_act(AGENT, action, agent.id, **form)

    assert response.status_code == 200
    assert "errorlist" in response.content.decode()
    assert "sealed" not in response.content.decode()
    assert BalanceMovement.objects.filter(agent=agent).count() == 1


@pytest.mark.parametrize("reason", ["", " ", "x" * 501])
def test_a_movement_without_a_reason_that_fits_is_asked_for_again(finance, agent, reason):
    form = {"amount": "5", "chain": LOCALNET, "recipient": TO}
    sealed = sealed_in(finance.try_to_act(AGENT, "withdraw", agent.id, **form))

    response = finance.try_to_act(AGENT, "withdraw", agent.id, sealed=sealed, reason=reason)

    assert "errorlist" in response.content.decode()
    assert "995.00 USDC" in response.content.decode()
    assert BalanceMovement.objects.filter(agent=agent).count() == 1
    (booked,) = finance.act(AGENT, "withdraw", agent.id, sealed=sealed_in(response), reason="Ticket 7")
    assert booked.startswith("Booked the withdrawal")


def test_a_balance_does_not_go_below_zero(finance, agent):
    form = {"amount": "1000.01", "chain": LOCALNET, "recipient": TO}

    assert finance.carry_out(AGENT, "withdraw", agent.id, **form) == [f"The balance of {agent.id} is 1000.00 USDC."]


def test_an_amount_is_for_one_agent(finance):
    agents = [make_agent(), make_agent()]

    (said,) = finance.act(AGENT, "adjust", *(agent.id for agent in agents), amount="1", reason="x")

    assert said.startswith("Choose one agent")
    assert [Agent.objects.get(pk=agent.pk).balance for agent in agents] == [1000, 1000]


@pytest.mark.parametrize("action", ["adjust", "withdraw"])
def test_only_chains_that_have_the_asset_are_offered(finance, action):
    page = finance.try_to_act(AGENT, action, make_agent(asset=Asset.SOL).id).content.decode()

    assert ">solana-localnet</option>" in page
    assert ">evm-localnet</option>" not in page


@pytest.mark.parametrize("action", ["adjust", "withdraw"])
def test_an_auditors_forged_movement_is_refused(auditor, agent, action):
    response = auditor.try_to_act(AGENT, action, agent.id, amount="5", chain=LOCALNET, reason="Ticket 7", after="0")

    assert response.status_code == 403
    assert BalanceMovement.objects.filter(agent=agent).count() == 1


def test_amounts_are_of_the_agents_asset(finance):
    agent = make_agent(asset=Asset.EURC)

    assert "Amount in EURC" in finance.try_to_act(AGENT, "adjust", agent.id).content.decode()
