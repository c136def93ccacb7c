"""Budgets within budgets in the OpenAPI document: what agents in them are answered fits it."""

from decimal import Decimal

from policy.operations import pause_agent
from tests.support.factories import decide, make_agent, make_service
from tests.support.openapi_document import PAYMENT, at, examples_of, validate
from tests.support.refusals import body_for
from tests.support.trees import make_child, make_path

BUDGET, ME, EVALUATION = ("/v1/agents/{id}/budget", "get"), ("/v1/me", "get"), ("/v1/payments/evaluate", "post")
LIMITS = {"daily_limit": "5", "hourly_limit": Decimal(900), "payments_per_day": 9, "approval_above": Decimal(3)}


def documented(document, where, response, status=200):
    assert response.status_code == status, response.content
    validate(document, at(document, where)["responses"][str(status)], response.json())
    return response.json()


def test_the_answers_about_an_agent_within_budgets_fit_the_document(client_of, document):
    leaf, payee = make_path(3, **LIMITS)[-1], make_service()
    client = client_of(agent=leaf, scopes=["payments", "budgets", "logs"])

    documented(document, PAYMENT, client.pay(body_for(leaf, payee)), 201)
    documented(document, PAYMENT, client.pay(body_for(leaf, payee, "3.5")), 202)
    (held, paid) = documented(document, ("/v1/logs", "get"), client.get("/v1/logs"))["data"]
    budget = documented(document, BUDGET, client.get(f"/v1/agents/{leaf.id}/budget"))
    documented(document, ME, client.get("/v1/me"))

    assert [len(entry["explanation"]["levels"]) for entry in (held, paid)] == [2, 2]
    assert [one["paymentsToday"] for one in budget["levels"]] == [2, 2]


def test_the_refusals_and_evaluations_of_a_level_fit_the_document(api, document):
    root, payee = make_agent(daily_limit="5"), make_service()
    leaf = make_child(root)
    decide(leaf, payee, "5")
    body = body_for(leaf, payee)

    for status in (422, 403):
        evaluated = documented(document, EVALUATION, api.post(EVALUATION[0], body))
        refused = documented(document, PAYMENT, api.pay(body), status)["error"]
        entry = documented(document, ("/v1/logs/{id}", "get"), api.get(f"/v1/logs/{refused['logId']}"))

        assert evaluated["level"] == refused["level"] == entry["explanation"]["level"]
        assert evaluated["level"] == {"agentId": root.pk, "policyRevision": "polrev_1"}
        pause_agent(root.pk, by="test")


def test_the_document_describes_every_member_of_a_level_that_an_approval_records(document):
    leaf = make_path(2, **LIMITS)[-1]
    known = document["components"]["schemas"]["LevelRecord"]["properties"]

    assert decide(leaf, make_service()).explanation["levels"][0].keys() <= known.keys()


def test_the_document_shows_what_a_level_decides(document):
    (budget,) = [body for _, body in examples_of(at(document, BUDGET)) if "levels" in body]
    (evaluation,) = [body for _, body in examples_of(at(document, EVALUATION)) if "level" in body]
    (error,) = [body["error"] for _, body in examples_of(at(document, PAYMENT)) if "level" in body.get("error", {})]

    assert budget["parent"] == budget["levels"][0]["agentId"]
    assert error["level"] == evaluation["level"]
    assert "level" in next(one for one in evaluation["rules"] if one["rule"] == evaluation["rule"])
