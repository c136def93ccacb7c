"""Every page answers, and none of them changes a row."""

import re

import pytest
from django.contrib import admin
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.console.paging import CappedPaginator
from foundation.kernel.assets import Asset
from ledger.models import BalanceMovement, Hold, LogEntry
from payments.lifecycle import SettlementState
from payments.models import (
    ChainState,
    Deposit,
    Outflow,
    PayeeState,
    Payment,
    Reconciliation,
    Relayer,
    Settlement,
    Withdrawal,
)
from payments.settling.state_changes import StateChange
from payments.settling.transitions import change_states
from policy.models import Agent, ApiKey, SignerSwitch
from services.models import Service, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from services.operations import Registration, register_service
from tests.foundation.console.conftest import address
from tests.support.factories import decide, make_agent, make_service, new_address, new_name
from tests.support.one_of_everything import make_one_of_everything
from tests.support.scenes import row_of

OURS = [
    Service,
    WebhookEndpoint,
    WebhookDelivery,
    WebhookAttempt,
    Agent,
    ApiKey,
    SignerSwitch,
    LogEntry,
    BalanceMovement,
    Hold,
    Payment,
    Settlement,
    Relayer,
    ChainState,
    PayeeState,
    Deposit,
    Withdrawal,
    Outflow,
    Reconciliation,
]


def name_of(model):
    return f"{model._meta.app_label}_{model._meta.model_name}"


@pytest.fixture
def entry(db):
    """One of everything that the console shows; returns an approved log entry."""
    return make_one_of_everything()


def test_every_model_of_ours_that_people_look_at_is_there():
    registered = {
        model for model in admin.site._registry if model._meta.app_label in {"services", "policy", "ledger", "payments"}
    }

    assert registered == set(OURS)


@pytest.mark.parametrize("model", OURS, ids=name_of)
def test_the_list_and_each_row_can_be_looked_at(superuser, entry, model):
    row = model.objects.first()

    assert superuser.get("index").status_code == 200
    shown = 302 if model is SignerSwitch else 200  # there is one: its list leads to it
    assert superuser.get(f"{name_of(model)}_changelist").status_code == shown
    assert superuser.get(f"{name_of(model)}_changelist", q="nothing has this").status_code == shown
    assert superuser.get(f"{name_of(model)}_change", str(row.pk)).status_code == 200


def test_a_transactions_page_tells_what_happened_to_it_and_why(superuser, entry):
    settlement = Settlement.objects.get(payments=entry.payment_id)
    change_states(
        [StateChange(row_of(settlement), SettlementState.EXPIRED, reason="Not included before its deadline.")]
    )

    page = superuser.get("payments_settlement_change", settlement.tx).content.decode()

    assert "Not included before its deadline." in page
    assert re.search(r"badge signed.*badge expired", page, re.DOTALL)
    assert entry.payment_id in page
    assert bytes(settlement.raw).hex()[:64] not in page


def test_an_id_may_hold_what_addresses_are_made_of(finance):
    service_id = f"{new_name('a')}/b:c@d+e_5F.f"
    register_service(Registration(service_id, "A payee", f"evm-localnet:{new_address()}", Asset.USDC))

    finance.act("services_service", "approve", service_id, shown=finance.look_before_approving(service_id))

    page = finance.get("services_service_change", service_id).content.decode()
    assert 'class="badge approved"' in page


# A key is issued and an agent is made on such a page, by the operation: see test_keys.py and test_new_agent.py.
@pytest.mark.parametrize("model", [model for model in OURS if model not in {ApiKey, Agent}], ids=name_of)
@pytest.mark.parametrize("verb", ["get", "post"])
def test_no_row_is_added_by_hand(superuser, model, verb):
    assert getattr(superuser, verb)(f"{name_of(model)}_add").status_code == 403


@pytest.mark.parametrize("model", OURS, ids=name_of)
@pytest.mark.parametrize("page", ["change", "delete"])
def test_no_row_is_changed_or_deleted_by_hand(superuser, entry, model, page):
    key = str(model.objects.first().pk)

    assert superuser.post(f"{name_of(model)}_{page}", key, post="yes", name="x").status_code == 403
    assert model.objects.exists()


@pytest.mark.parametrize("model", OURS, ids=name_of)
def test_no_list_offers_to_delete(superuser, entry, model):
    response = superuser.try_to_act(name_of(model), "delete_selected", str(model.objects.first().pk), post="yes")

    assert response.status_code in {200, 302, 403}
    assert model.objects.exists()


def test_a_log_entry_shows_why_and_its_place_in_the_chain(auditor, entry):
    page = auditor.get("ledger_logentry_change", entry.id).content.decode()

    for shown in (entry.hash, entry.previous_hash, entry.signature, entry.key_id, entry.tx, "Every rule passed."):
        assert shown in page


@pytest.mark.parametrize("member", ["id", "agent_id", "service"])
def test_a_log_entry_is_found_by_its_id_its_agent_and_its_service(auditor, entry, member):
    other = decide(make_agent(), make_service())

    page = auditor.get("ledger_logentry_changelist", q=getattr(entry, member)).content.decode()

    assert entry.id in page
    assert other.id not in page


@pytest.mark.parametrize(
    ("query", "is_shown"),
    [
        ({"result__exact": "approved"}, True),
        ({"result__exact": "blocked"}, False),
        ({"rule": "under_max_payment"}, False),  # an approval is no refusal by its last rule
        ({"rule": "service_approved"}, False),
    ],
)
def test_the_log_is_filtered_by_result_and_by_rule(auditor, entry, query, is_shown):
    page = auditor.get("ledger_logentry_changelist", **query).content.decode()

    assert (f">{entry.id}<" in page) is is_shown


def test_the_log_is_listed_newest_first_without_counting_all_of_it(auditor, entry, monkeypatch):
    monkeypatch.setattr(CappedPaginator, "count_limit", 2)
    newest = [decide(make_agent(), make_service()).id for _ in range(2)]

    with CaptureQueriesContext(
        connection,
    ) as queries:
        page = auditor.get("ledger_logentry_changelist").content.decode()

    counts = [query["sql"] for query in queries if "COUNT(*)" in query["sql"] and "ledger_logentry" in query["sql"]]
    assert [sql for sql in counts if "LIMIT 2" not in sql] == []
    assert re.findall(r">(log_\w+)<", page)[:2] == newest[::-1]
    assert "Search or filter to see others." in page


@pytest.mark.parametrize("member", ["payment_id", "agent_id", "tx"])
def test_a_payment_is_found_by_its_id_its_agent_and_its_transaction(auditor, entry, member):
    other = decide(make_agent(), make_service())

    page = auditor.get("payments_payment_changelist", q=getattr(entry, member)).content.decode()

    assert entry.payment_id in page
    assert other.payment_id not in page


def test_a_payment_shows_its_transactions_and_links_its_log_entry(auditor, entry):
    settlement = Settlement.objects.get(payments=entry.payment_id)

    page = auditor.get("payments_payment_change", entry.payment_id).content.decode()

    assert address("ledger_logentry_change", entry.id) in page
    assert settlement.tx in page
    assert bytes(settlement.raw).hex()[:64] not in page


def test_the_page_of_a_key_does_not_show_its_digest(superuser, entry):
    key = ApiKey.objects.latest("created_at")

    page = superuser.get("policy_apikey_change", key.id).content.decode()

    assert key.id in page
    assert "digest" not in page
    assert bytes(key.digest).hex()[:16] not in page


def test_the_console_runs_no_inline_script(superuser, entry):
    pages = ("services_service", "policy_agent", "services_webhookendpoint", "services_webhookdelivery")
    for page in ("index", *(f"{model}_changelist" for model in pages)):
        html = superuser.get(page).content.decode()
        assert re.findall(r"<script(?![^>]*\b(?:src=|type=\"application/json\"))[^>]*>", html) == []
        assert re.findall(r"\son[a-z]+=", html) == []


@pytest.mark.parametrize(
    "url",
    [
        "/console/services/service/?status__exact=%00",
        "/console/policy/agent/?q=%00",
        "/console/ledger/balancemovement/?kind__exact=%00",
        "/console/services/webhookdelivery/?q=%00",
    ],
)
def test_a_query_that_postgresql_cannot_hold_is_a_bad_request(superuser, url):
    assert superuser.client.get(url).status_code == 400


@pytest.mark.parametrize("shown", ["1 \x00", "9" * 5000 + " service", "x service", ""])
def test_an_approval_of_what_cannot_have_been_shown_is_a_bad_request(superuser, entry, shown):
    form = {"action": "approve", "_selected_action": ["a-service"], "shown": [shown]}
    assert superuser.client.post("/console/services/service/", form).status_code == 400
