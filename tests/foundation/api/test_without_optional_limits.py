"""An agent without optional limits is answered byte by byte as before there were any."""

from datetime import timedelta

import pytest

from foundation.kernel.times import format_instant, utc_now
from ledger.models import LogEntry
from policy.models import ApiKey
from tests.support.factories import decide, make_agent, make_service
from tests.support.refusals import body_for

BUDGET = (
    '{"agentId":"<agent>","status":"active","asset":"USDC","balance":"998.75","spentToday":"1.25",'
    '"spentThisWeek":"1.25","dailyLimit":"50.00","weeklyLimit":"100.00","maxPerPayment":"10.00",'
    '"policyRevision":"polrev_1"}'
)
ME = (
    '{"keyId":"<key>","name":"","scopes":["budgets","payments"],"agentId":"<agent>","ownPayeesOnly":false,'
    '"createdAt":"<created>","expiresAt":null,"requestsPerMinute":<quota>}'
)
NOTHING = '"limit":null,"spent":null,"requested":null,"remaining":null,"headroom":null}'
EVALUATED = (
    '{"result":"approved","rule":"under_max_payment","message":"Every rule passed.","code":null,"allowedAt":null,'
    '"rules":['
    f'{{"rule":"agent_active","passed":true,"message":null,{NOTHING},'
    f'{{"rule":"service_approved","passed":true,"message":null,{NOTHING},'
    f'{{"rule":"service_payable","passed":true,"message":null,{NOTHING},'
    f'{{"rule":"asset_matches","passed":true,"message":null,{NOTHING},'
    '{"rule":"above_minimum","passed":true,"message":null,"limit":null,"spent":null,"requested":"1.00",'
    '"remaining":null,"headroom":null},'
    '{"rule":"balance_covers_payment","passed":true,"message":null,"limit":null,"spent":null,"requested":"1.00",'
    '"remaining":"998.75","headroom":"997.75"},'
    '{"rule":"under_weekly_limit","passed":true,"message":null,"limit":"100.00","spent":"1.25","requested":"1.00",'
    '"remaining":"98.75","headroom":"97.75"},'
    '{"rule":"under_daily_limit","passed":true,"message":null,"limit":"50.00","spent":"1.25","requested":"1.00",'
    '"remaining":"48.75","headroom":"47.75"},'
    '{"rule":"under_max_payment","passed":true,"message":null,"limit":"10.00","spent":null,"requested":"1.00",'
    '"remaining":"10.00","headroom":"9.00"},'
    f'{{"rule":"policy_signer_available","passed":true,"message":null,{NOTHING}],'
    '"fee":<fee>,"policyRevision":"polrev_1","evaluatedAt":"<evaluated>"}'
)
EXPLANATION = (
    '{"balance":"998.75","dailyLimit":"50.00","escrowId":"<escrow>","maxPerPayment":"10.00",'
    '"message":"Every rule passed.","recipient":"<recipient>","request":"<request>","spentThisWeek":"1.25",'
    '"spentToday":"1.25","weeklyLimit":"100.00"}'
)
REFUSED = (
    '{"error":{"code":"budget_exceeded","message":"<message>","retry":"new_key",'
    '"docs":"/v1/docs/errors/budget_exceeded","rule":"<rule>","logId":"<log>","policyRevision":"polrev_1",<figures>}}'
)
REFUSALS = {
    "10.01": (
        "under_max_payment",
        "A single payment may not exceed 10.00 USDC.",
        '"allowedAt":null,"limit":"10.00","remaining":"10.00","requested":"10.01"',
    ),
    "49": (
        "under_daily_limit",
        "The daily limit is 50.00 USDC, of which 1.25 is spent.",
        '"allowedAt":null,"limit":"50.00","remaining":"48.75","requested":"49.00","spent":"1.25"',
    ),
    "99": (
        "under_weekly_limit",
        "The weekly limit is 100.00 USDC, of which 1.25 is spent.",
        '"allowedAt":null,"limit":"100.00","remaining":"98.75","requested":"99.00","spent":"1.25"',
    ),
}
NOT_APPROVED = (
    '{"error":{"code":"service_not_approved","message":"No service of this id is registered.","retry":"new_key",'
    '"docs":"/v1/docs/errors/service_not_approved","rule":"service_approved","logId":"<log>",'
    '"policyRevision":"polrev_1"}}'
)


@pytest.fixture
def spender(db):
    """An agent that has paid 1.25."""
    agent = make_agent()
    decide(agent, make_service(), "1.25")
    return agent


def filled(literal, **values):
    for name, value in values.items():
        literal = literal.replace(f"<{name}>", str(value))
    return literal


def test_a_budget(api, spender):
    answer = api.get(f"/v1/agents/{spender.id}/budget")

    assert answer.content.decode() == filled(BUDGET, agent=spender.id)


def test_a_bound_key(client_of, spender, settings):
    answer = client_of(agent=spender, scopes=["payments", "budgets"]).get("/v1/me")

    key, created = ApiKey.objects.get(agent=spender).id, answer.json()["createdAt"]
    quota = settings.RATE_LIMIT_PER_MINUTE
    assert answer.content.decode() == filled(ME, key=key, agent=spender.id, created=created, quota=quota)


def test_an_evaluation(api, spender):
    answer = api.post("/v1/payments/evaluate", body_for(spender, make_service(), "1"))

    told = answer.json()
    fee = '{{"chain":"{chain}","coin":"{coin}","atMost":"{atMost}"}}'.format(**told["fee"])
    assert answer.content.decode() == filled(EVALUATED, fee=fee, evaluated=told["evaluatedAt"])


def test_the_explanation_of_an_approval(spender):
    entry = LogEntry.objects.get(agent=spender)

    varying = {name: entry.explanation[name] for name in ("recipient", "request")}
    assert entry.explanation_json == filled(EXPLANATION, escrow=entry.explanation["escrowId"], **varying)


@pytest.mark.parametrize("amount", REFUSALS)
def test_a_refusal_by_a_limit(api, spender, amount):
    rule, message, figures = REFUSALS[amount]

    answer = api.pay(body_for(spender, make_service(), amount))

    log = LogEntry.objects.get(agent=spender, result="blocked").id
    assert answer.content.decode() == filled(REFUSED, rule=rule, message=message, figures=figures, log=log)
    assert "Retry-After" not in answer


def test_a_refusal_by_a_window_that_rolls(api):
    agent, service = make_agent(daily_limit="2"), make_service()
    paid = decide(agent, service, "1.5", at=utc_now() - timedelta(hours=1))

    answer = api.pay(body_for(agent, service, "1"))

    log = LogEntry.objects.get(agent=agent, result="blocked").id
    message = "The daily limit is 2.00 USDC, of which 1.50 is spent."
    fits_at = format_instant(paid.created_at + timedelta(days=1))
    figures = f'"allowedAt":"{fits_at}","limit":"2.00","remaining":"0.50","requested":"1.00","spent":"1.50"'
    expected = filled(REFUSED, rule="under_daily_limit", message=message, figures=figures, log=log)
    assert answer.content.decode() == expected
    assert int(answer["Retry-After"]) in range(82_000, 82_801)


def test_a_refusal_of_a_payee(api, spender):
    answer = api.pay(body_for(spender, "nobody"))

    log = LogEntry.objects.get(agent=spender, result="blocked").id
    assert answer.content.decode() == filled(NOT_APPROVED, log=log)
    assert "Retry-After" not in answer
