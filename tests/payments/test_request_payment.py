"""`POST /v1/payments/request`."""


def test_a_payment_within_policy_is_approved(api, payment):
    response = api.pay(payment)
    assert response.status_code == 201, response.content
    assert response.json()["status"] == "approved"


def test_smoke_http(committed, servers):
    import requests

    from tests.factories import make_agent, make_api_key, make_service

    agent, service, key = make_agent(), make_service(), make_api_key()
    for url in servers.urls:
        r = requests.post(
            url + "/v1/payments/request",
            json={"agentId": agent.id, "service": service.id, "amount": "1", "asset": "USDC", "reason": "r"},
            headers={"Authorization": f"Bearer {key}", "Idempotency-Key": url},
        )
        assert r.status_code == 201, r.text
