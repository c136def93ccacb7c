"""`GET /v1/agents/:id/budget`."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from urllib.parse import quote

import pytest
from django.db import connection

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, MovementKind
from ledger.operations import fund_agent, move_balance
from ledger.queries import find_budget, find_budgets
from policy.hours import parse_hours
from policy.limits import Limits
from policy.models import Agent
from policy.operations import pause_agent, resume_agent, set_policy
from policy.parents import lock_agent
from policy.payee_limits import PayeeException
from tests.support.answers import error_of
from tests.support.factories import decide, make_agent, make_agent_of_old

MEMBERS = [
    "agentId", "status", "asset", "balance", "spentToday", "spentThisWeek", "dailyLimit", "weeklyLimit",
    "maxPerPayment", "policyRevision",
]  # fmt: skip
HOUR = timedelta(hours=1)


def read(api, agent):
    response = api.get(f"/v1/agents/{agent.id}/budget")
    assert response.status_code == 200
    return response.json()


def test_a_budget_has_the_members_of_the_specification(api, agent):
    budget = read(api, agent)

    assert list(budget) == MEMBERS
    assert budget == {
        "agentId": agent.id, "status": "active", "asset": "USDC", "balance": "1000.00", "spentToday": "0.00",
        "spentThisWeek": "0.00", "dailyLimit": "50.00", "weeklyLimit": "100.00", "maxPerPayment": "10.00",
        "policyRevision": "polrev_1",
    }  # fmt: skip


def test_a_budget_follows_every_payment(api, agent, payment):
    for amount, balance, spent in (
        ("0.5", "999.50", "0.50"),
        ("1.25", "998.25", "1.75"),
        ("0.000001", "998.249999", "1.750001"),
    ):
        answer = api.pay({**payment, "amount": amount}).json()

        budget = read(api, agent)
        assert (budget["balance"], budget["spentToday"], budget["spentThisWeek"]) == (balance, spent, spent)
        assert answer["spentToday"] == spent


def test_a_blocked_payment_leaves_the_budget_as_it_was(api, agent, payment):
    before = read(api, agent)

    api.pay({**payment, "amount": "10.01"})

    assert read(api, agent) == before


def test_the_windows_roll(api, agent, service):
    now = utc_now()
    for age, amount in (
        (timedelta(days=7) + HOUR, "1"), (timedelta(days=7) - HOUR, "2"), (timedelta(days=1) + HOUR, "4"),
        (timedelta(days=1) - HOUR, "8"), (HOUR, "10"),
    ):  # fmt: skip
        decide(agent, service, amount, at=now - age)

    budget = read(api, agent)

    assert (budget["spentToday"], budget["spentThisWeek"]) == ("18.00", "24.00")


def test_a_failed_payment_is_given_back(api, agent, service):
    entry = decide(agent, service, "4")
    decide(agent, service, "2")
    move_balance(
        lock_agent(agent.id), kind=MovementKind.RETURN, amount=Decimal(4), by="test", payment_id=entry.payment_id,
        spent_at=entry.created_at,
    )  # fmt: skip

    budget = read(api, agent)

    assert (budget["balance"], budget["spentToday"], budget["spentThisWeek"]) == ("998.00", "2.00", "2.00")


def test_a_budget_tells_the_state_of_the_agent(api, agent):
    pause_agent(agent.id, by="ann")
    assert read(api, agent)["status"] == "paused"

    resume_agent(agent.id, by="ann")
    assert read(api, agent)["status"] == "active"


def test_a_budget_tells_the_limits_in_force_and_their_revision(api, agent):
    set_policy(agent.id, change=lambda limits: replace(limits, daily_limit=Decimal(2)), by="test")
    set_policy(agent.id, change=lambda limits: replace(limits, daily_limit=Decimal(3)), by="test")

    budget = read(api, agent)

    assert (budget["dailyLimit"], budget["policyRevision"]) == ("3.00", "polrev_3")


def test_a_budget_may_be_all_zeros(api):
    agent = make_agent(max_per_payment="0", daily_limit="0", weekly_limit="0", balance="0")

    budget = read(api, agent)

    assert {budget[name] for name in MEMBERS if name.endswith("Limit") or name in ("balance", "maxPerPayment")} == {
        "0.00"
    }


@pytest.mark.parametrize(
    "agent_id", ["team/agent 7", "\u00fc\U0001f600", "a/budget", "budget", "%41", "a?b#c", "request"]
)
def test_an_agent_of_old_with_any_printable_text_as_its_id_is_found(api, agent_id):
    make_agent_of_old(agent_id, asset=Asset.SOL)

    for form in (quote(agent_id, safe=""), quote(agent_id, safe="/"), quote(agent_id, safe="") + "/budget/../."):
        response = api.get(f"/v1/agents/{form}/budget")
        if "/budget/.." not in form:
            assert (response.status_code, response.json()["agentId"]) == (200, agent_id)
        else:
            error_of(response, 404, "agent_not_found")


@pytest.mark.parametrize(
    "agent_id",
    [
        "nobody",
        "%00",
        "a%00b",
        "%0A",
        "a%0D%0Ab",
        "%7F",
        "%ff",
        "%ed%a0%80",
        "%C3",
        "x" * 5000,
        "..",
        "%2e%2e",
        "%20",
        "'--",
        "%25",
        "\u00fc",
        "pay_1",
    ],
)
def test_an_unknown_agent_is_404_whatever_its_form(api, agent_id):
    error_of(api.get(f"/v1/agents/{agent_id}/budget"), 404, "agent_not_found")


def test_an_agent_id_is_compared_as_it_is(api, agent):
    for other in (agent.id.upper(), f"%20{agent.id}", f"{agent.id}%20"):
        error_of(api.get(f"/v1/agents/{other}/budget"), 404, "agent_not_found")


# --- Optional limits
def test_an_optional_limit_is_a_member_and_what_it_compares_another(api, service):
    agent = make_agent(monthly_limit=Decimal(300), payments_per_day=3, payee_daily_limit=Decimal(5))
    decide(agent, service, "2", at=utc_now() - timedelta(days=8))
    decide(agent, service, "1.5")

    budget = read(api, agent)

    assert list(budget.items())[len(MEMBERS) :] == [
        ("monthlyLimit", "300.00"), ("paymentsPerDay", 3), ("payeeDailyLimit", "5.00"), ("spentThisMonth", "3.50"),
        ("paymentsToday", 1),
    ]  # fmt: skip


def test_a_budget_has_every_optional_limit_as_the_contract_writes_it(api):
    agent = make_agent(
        total_limit=Decimal(0), payments_per_hour=0,
        payee_limits={"b": PayeeException({"day": None, "payment": Decimal("0.5")})},
        allowed_hours=parse_hours("MON-fri  09:00-17:00,daily 22:00-23:00 Europe/Berlin"),
        allowed_from=datetime(2026, 5, 14, 18, tzinfo=UTC), allowed_until=datetime(2026, 5, 15, tzinfo=UTC),
        new_payee_wait_hours=24, new_payee_payments=3, new_payee_max_per_payment=Decimal(1),
    )  # fmt: skip

    budget = read(api, agent)

    assert {name: budget[name] for name in budget if name not in MEMBERS} == {
        "totalLimit": "0.00", "paymentsPerHour": 0, "payeeLimits": {"b": {"day": None, "payment": "0.50"}},
        "allowedHours": "mon-fri 09:00-17:00, daily 22:00-23:00 Europe/Berlin",
        "allowedFrom": "2026-05-14T18:00:00.000Z", "allowedUntil": "2026-05-15T00:00:00.000Z",
        "newPayeeWaitHours": 24, "newPayeePayments": 3, "newPayeeMaxPerPayment": "1.00", "spentInTotal": "0.00",
        "paymentsThisHour": 0,
    }  # fmt: skip


def test_what_optional_limits_compare_is_given_back_with_a_payment_that_failed(api, service):
    agent = make_agent(hourly_limit=Decimal(9), total_limit=Decimal(90), payments_per_hour=9)
    entry = decide(agent, service, "4")
    decide(agent, service, "2")
    move_balance(
        lock_agent(agent.id), kind=MovementKind.RETURN, amount=Decimal(4), by="test", payment_id=entry.payment_id,
        spent_at=entry.created_at,
    )  # fmt: skip

    budget = read(api, agent)

    compared = (budget["spentThisHour"], budget["spentInTotal"], budget["paymentsThisHour"])
    assert compared == ("2.00", "2.00", 1)


# --- Funding


def test_funding_adds_to_the_balance_and_is_kept(agent):
    fund_agent(agent.id, amount=Decimal("0.000001"), by="anna", reason="A gift")

    movement = BalanceMovement.objects.filter(agent=agent)[0]
    assert Agent.objects.get(pk=agent.id).balance == Decimal("1000.000001")
    assert (movement.kind, movement.amount, movement.balance_after) == (
        "funding",
        Decimal("0.000001"),
        Decimal("1000.000001"),
    )
    assert (movement.author, movement.reason) == ("anna", "A gift")


@pytest.mark.parametrize("amount", ["0", "-1", "0.0000001", "NaN", "Infinity"])
def test_funding_takes_a_positive_amount_of_the_asset(agent, amount):
    with pytest.raises(OperationRefused):
        fund_agent(agent.id, amount=Decimal(amount), by="test")

    assert Agent.objects.get(pk=agent.id).balance == 1000


@pytest.mark.django_db
def test_an_agent_that_does_not_exist_cannot_be_funded():
    with pytest.raises(OperationRefused, match="There is no agent nobody"):
        fund_agent("nobody", amount=Decimal(1), by="test")


@pytest.mark.django_db
def test_balances_of_any_size_are_added_without_rounding():
    agent = make_agent(asset=Asset.SOL, balance="99999999999999999999.999999999")

    fund_agent(agent.id, amount=Decimal("0.000000001"), by="test")
    fund_agent(agent.id, amount=Decimal("0.000000001"), by="test")

    assert Agent.objects.get(pk=agent.id).balance == Decimal("100000000000000000000.000000001")


def test_large_payments_are_counted_without_rounding(service):
    huge = "99999999999999999999.999999"
    agent = make_agent(max_per_payment=huge, daily_limit="9" * 20, weekly_limit="9" * 20, balance=huge)
    decide(agent, service, "0.000001")
    limits = Limits(Decimal("1E+30"), Decimal("1E+30"), Decimal("1E+30"))
    set_policy(agent.id, change=lambda _limits: limits, by="test")
    fund_agent(agent.id, amount=Decimal("1E+25"), by="test")
    for _ in range(2):
        entry = decide(agent, service, huge)

    assert entry.explanation["spentToday"] == "199999999999999999999.999999"
    assert Agent.objects.get(pk=agent.id).spent_total == Decimal("199999999999999999999.999999")
    assert Agent.objects.get(pk=agent.id).balance == Decimal("9999900000000000000000000.000000")


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("ledger_budgets", "ledger/sql/budgets.sql"),
        ("ledger_budgets_4", "ledger/sql/budgets.sql"),
        ("payments_states_2", "payments/sql/payment_states.sql"),
    ],
)
def test_the_functions_that_read_are_what_their_files_say(db, settings, name, file):
    with connection.cursor() as cursor:
        cursor.execute("SELECT prosrc FROM pg_proc WHERE proname = %s", [name])
        ((source,),) = cursor.fetchall()

    assert source.strip() in (settings.BASE_DIR / file).read_text()


def test_many_budgets_are_those_of_each(db, agent):
    other = make_agent(asset=Asset.EURC, balance="7", daily_limit="0.5")

    budgets = find_budgets([other.id, agent.id, "nobody"])

    assert budgets.keys() == {agent.id, other.id}
    assert budgets[other.id] == find_budget(other.id)
    assert (budgets[other.id].balance, budgets[other.id].daily_limit) == (Decimal(7), Decimal("0.5"))
    assert (budgets[other.id].asset, budgets[agent.id].asset) == ("EURC", "USDC")
    assert find_budgets([]) == {}
