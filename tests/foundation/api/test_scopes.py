"""What a key permits: scopes, and the one agent that it may be bound to."""

import pytest

from tests.support.answers import error_of, faulty_params
from tests.support.factories import decide, make_agent, make_service, new_address, new_name

SCOPES = ["payments", "budgets", "services", "logs"]


def registration():
    return {"id": new_name("shop"), "name": "A shop", "recipient": f"base:{new_address()}", "asset": "USDC"}


def ask(client, endpoint, payment):
    match endpoint:
        case "request payment":
            return client.pay(payment)
        case "budget":
            return client.get(f"/v1/agents/{payment['agentId']}/budget")
        case "services":
            return client.post("/v1/services", registration())
        case path:
            return client.get(path)


ENDPOINTS = [
    ("request payment", "payments", 201),
    ("/v1/payments", "payments", 200),
    ("/v1/payments/pay_01h00000000000000000000000", "payments", 404),
    ("/v1/payments/pay_01h00000000000000000000000/proof", "payments", 404),
    ("budget", "budgets", 200),
    ("services", "services", 201),
    ("/v1/logs", "logs", 200),
    ("/v1/logs/log_01h00000000000000000000000", "logs", 404),
]


@pytest.mark.parametrize(("endpoint", "scope", "status"), ENDPOINTS)
def test_an_endpoint_answers_a_key_that_has_its_scope_alone(client_of, payment, endpoint, scope, status):
    assert ask(client_of(scopes=[scope]), endpoint, payment).status_code == status


@pytest.mark.parametrize(("endpoint", "scope"), [row[:2] for row in ENDPOINTS])
def test_an_endpoint_refuses_a_key_that_has_every_other_scope(client_of, payment, no_trace, endpoint, scope):
    client = client_of(scopes=[other for other in SCOPES if other != scope])

    error = error_of(ask(client, endpoint, payment), 403, "insufficient_scope")
    assert scope in error["message"]


def test_a_bound_key_pays_for_its_own_agent(client_of, agent, payment):
    assert client_of(agent=agent).pay(payment).status_code == 201


def test_a_bound_key_does_not_pay_for_another_agent(client_of, payment, no_trace):
    error_of(client_of(agent=make_agent(balance="0")).pay(payment), 403, "insufficient_scope")


def test_a_bound_key_does_not_learn_which_agents_exist(client_of, agent, payment):
    client = client_of(agent=make_agent())

    known, unknown = client.pay(payment), client.pay({**payment, "agentId": "nobody"})
    assert known.content == unknown.content
    known, unknown = client.get(f"/v1/agents/{agent.id}/budget"), client.get("/v1/agents/nobody/budget")
    error_of(known, 403, "insufficient_scope")
    assert known.content == unknown.content


def test_a_bound_key_reads_its_own_budget_only(client_of, agent):
    assert client_of(agent=agent).get(f"/v1/agents/{agent.id}/budget").status_code == 200
    error_of(client_of(agent=make_agent()).get(f"/v1/agents/{agent.id}/budget"), 403, "insufficient_scope")


def test_a_bound_key_reads_its_own_payments_only(client_of, agent, service):
    path = f"/v1/payments/{decide(agent, service).payment_id}"

    assert client_of(agent=agent).get(path).status_code == 200
    error_of(client_of(agent=make_agent()).get(path), 404, "payment_not_found")


def test_a_bound_key_sees_its_own_log_when_it_names_no_agent(client_of, agent, service):
    other = make_agent()
    mine, theirs = decide(agent, service), decide(other, service)

    shown = [entry["id"] for entry in client_of(agent=agent).get("/v1/logs").json()["data"]]

    assert shown == [mine.id]
    assert theirs.id not in shown


def test_a_bound_key_does_not_see_another_agents_log(client_of, agent):
    client = client_of(agent=agent)

    assert client.get("/v1/logs", {"agentId": agent.id}).status_code == 200
    error_of(client.get("/v1/logs", {"agentId": make_agent().id}), 403, "insufficient_scope")
    error_of(client.get("/v1/logs", {"agentId": "nobody"}), 403, "insufficient_scope")
    assert faulty_params(client.get("/v1/logs", {"agentId": ""})) == ["agentId"]


def test_a_bound_key_cannot_use_a_cursor_of_everyones_log(client_of, api, agent, service):
    decide(make_agent(), service)
    decide(agent, service)
    cursor = api.get("/v1/logs", {"limit": 1}).json()["nextCursor"]

    error_of(client_of(agent=agent).get("/v1/logs", {"cursor": cursor}), 400, "invalid_request")


def test_a_bound_key_registers_services_only_when_that_was_granted_by_name(client_of, agent, no_trace):
    error_of(client_of(agent=agent).post("/v1/services", registration()), 403, "insufficient_scope")


def test_a_bound_key_that_was_granted_services_registers_them(client_of, agent):
    client = client_of(agent=agent, scopes=["payments", "services"])

    assert client.post("/v1/services", registration()).status_code == 201


def test_an_unbound_key_acts_for_every_agent(api, agent, payment):
    other = make_agent()

    assert api.pay(payment).status_code == 201
    assert api.pay({**payment, "agentId": other.id}).status_code == 201


def test_no_key_approves_a_service(api):
    service = make_service(approved=False)

    response = api.post("/v1/services", {**registration(), "id": service.id, "status": "approved", "approved": True})

    assert response.json()["status"] == "pending_approval"
