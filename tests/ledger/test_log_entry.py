"""`GET /v1/logs/{id}`: one decision."""

import pytest

from foundation.kernel.ids import new_id
from foundation.kernel.times import utc_now
from ledger.receipts import verify
from tests.support.answers import error_of
from tests.support.factories import decide, make_agent
from tests.support.log_reads import fill

PATH = "/v1/logs"


def test_an_entry_is_shown_as_the_log_lists_it(api, agent, service):
    fill(agent, service, 3)

    for listed in api.get(PATH, {"agentId": agent.id}).json()["data"]:
        response = api.get(f"{PATH}/{listed['id']}")
        assert response.status_code == 200
        assert response["Content-Type"] == "application/json"
        assert list(response.json().items()) == list(listed.items())


def test_an_entry_is_a_receipt(api, anonymous, agent, payment):
    error = error_of(api.pay({**payment, "amount": "11"}), 422, "budget_exceeded")

    entry = api.get(f"{PATH}/{error['logId']}/").json()

    verify(entry, anonymous.get("/.well-known/allowance-keys.json").json()["keys"])
    assert entry["rule"] == "under_max_payment"


def test_a_bound_key_reads_its_own_entries_only(client_of, agent, service):
    path = f"{PATH}/{decide(agent, service).id}"
    client = client_of(agent=make_agent(), scopes=["logs"])

    assert client_of(agent=agent, scopes=["logs"]).get(path).status_code == 200
    error_of(client.get(path), 404, "log_entry_not_found")
    assert client.get(path).content == client.get(f"{PATH}/{new_id('log', utc_now())}").content


def test_another_scope_is_not_enough(client_of, agent, service):
    client = client_of(scopes=["payments", "budgets", "services"])

    error_of(client.get(f"{PATH}/{decide(agent, service).id}"), 403, "insufficient_scope")


@pytest.mark.parametrize(
    "entry_id",
    ["x", "log_", "LOG_01H00000000000000000000000", "pay_01h00000000000000000000000", "%00", "log_%00", "%ff",
     "%ed%a0%80", "log_01h0000000000000000000000%0A", "log_01h00000000000000000000000%0A", "..", "'--", "x" * 5000],
)  # fmt: skip
def test_an_id_of_any_other_form_is_404(api, entry_id):
    error_of(api.get(f"{PATH}/{entry_id}"), 404, "log_entry_not_found")
