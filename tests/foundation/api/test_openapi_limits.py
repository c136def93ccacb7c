"""Optional limits in the OpenAPI document: what real agents with them are answered fits it."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from foundation.kernel.times import utc_now
from ledger.models import Tally
from policy.hours import parse_hours
from policy.more_limits import PARTS
from policy.payee_limits import PayeeException
from tests.support.factories import make_agent, make_service
from tests.support.openapi_document import PAYMENT, at, examples_of, validate
from tests.support.refusals import body_for
from tests.support.trees import make_child

BUDGET, ME, EVALUATION = ("/v1/agents/{id}/budget", "get"), ("/v1/me", "get"), ("/v1/payments/evaluate", "post")
MANY, IN_THREE_DAYS = Decimal(900), utc_now() + timedelta(days=3)
COMPARED = {"spentThisHour", "spentThisMonth", "spentInTotal", "paymentsThisHour", "paymentsToday"}
# All optional limits, none of which refuses a payment of 1; then some that do.
ALL: dict[str, Any] = {
    "hourly_limit": MANY,
    "monthly_limit": MANY,
    "total_limit": MANY,
    "payments_per_hour": 9,
    "payments_per_day": 9,
    "payee_max_per_payment": MANY,
    "payee_daily_limit": MANY,
    "payee_weekly_limit": MANY,
    "payee_limits": {"shop": PayeeException({"payment": None, "week": Decimal("7.5")})},
    "allowed_tags": ("compute", "data"),
    "allowed_hours": parse_hours("daily 00:00-24:00 UTC"),
    "allowed_from": utc_now() - timedelta(days=1),
    "allowed_until": utc_now() + timedelta(days=1),
    "new_payee_wait_hours": 1,
    "new_payee_payments": 2,
    "new_payee_max_per_payment": MANY,
    "approval_above": MANY,
    "approval_above_day": MANY,
    "approval_for_first": True,
    "approval_hours": 3,
}
REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "within_dates": (403, {"allowed_from": utc_now() + timedelta(days=2)}),
    "within_hours": (403, {"allowed_hours": parse_hours(f"{IN_THREE_DAYS:%a} 09:00-17:00 Europe/Berlin")}),
    "new_payee_waited": (403, {"new_payee_wait_hours": 2}),
    "under_total_limit": (422, {"total_limit": Decimal("0.5")}),
    "under_hourly_count": (422, {"payments_per_hour": 0}),
    "under_payee_max_payment": (422, {"payee_max_per_payment": Decimal("0.5")}),
}


def documented(document, where, response, status=200):
    assert response.status_code == status, response.content
    validate(document, at(document, where)["responses"][str(status)], response.json())
    return response.json()


def test_the_answers_about_an_agent_with_every_optional_limit_fit_the_document(client_of, document):
    agent, names, payee = make_child(make_agent(), **ALL), {part.name for part in PARTS}, make_service(tags=["data"])
    client = client_of(agent=agent, scopes=["payments", "budgets"])

    budget = documented(document, BUDGET, client.get(f"/v1/agents/{agent.id}/budget"))
    key = documented(document, ME, client.get("/v1/me"))
    evaluated = documented(document, EVALUATION, client.post(EVALUATION[0], body_for(agent, payee)))

    assert names | COMPARED <= budget.keys()
    assert names <= key.keys()
    asked = [*document["components"]["schemas"]["Rule"]["enum"]]
    asked.remove("approved_by_person")  # no rule that is asked, but what a person has said
    assert [one["rule"] for one in evaluated["rules"]] == asked


@pytest.mark.parametrize("rule", REFUSED)
def test_a_refusal_by_an_optional_limit_and_its_headers_fit_the_document(api, document, rule):
    status, more = REFUSED[rule]
    agent, service = make_agent(**more), make_service()

    response = api.pay(body_for(agent, service))

    refused = documented(document, PAYMENT, response, status)["error"]
    assert refused["rule"] == rule
    headers = at(document, PAYMENT)["responses"][str(status)]["headers"]
    assert ("Retry-After" in response) is (refused["allowedAt"] is not None)
    assert "Retry-After" in headers


def test_what_cannot_be_counted_at_present_is_null_in_a_budget(api, document):
    agent = make_agent(total_limit=MANY, payments_per_day=3)
    Tally.objects.filter(agent=agent).delete()

    budget = documented(document, BUDGET, api.get(f"/v1/agents/{agent.id}/budget"))

    assert (budget["spentInTotal"], budget["paymentsToday"], budget["paymentsPerDay"]) == (None, None, 3)


@pytest.mark.parametrize("where", [BUDGET, ME])
def test_no_optional_limit_is_promised(document, where):
    schema = at(document, where)["responses"]["200"]["content"]["application/json"]["schema"]
    name = schema["$ref"].rpartition("/")[2]

    required = document["components"]["schemas"][name]["required"]

    assert COMPARED.isdisjoint(required)
    assert {part.name for part in PARTS}.isdisjoint(required)


@pytest.mark.parametrize("where", [BUDGET, ME, EVALUATION])
def test_the_document_shows_an_agent_with_optional_limits_and_one_without(document, where):
    shown = [body for status, body in examples_of(at(document, where)) if status == "200"]
    names = {part.name for part in PARTS}

    if where is EVALUATION:
        assert len({len(one["rules"]) for one in shown}) > 1
    else:
        plain, limited = shown[:2]
        assert names.isdisjoint(plain)
        assert names & limited.keys()
