"""One search box for everything that has an id, a key or an address. Source: issue 15, clause 4."""

import re
from html import unescape

import pytest
from django.conf import settings
from django.contrib.auth.models import Permission
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from backoffice import metadata_search
from backoffice.hits import page_of
from backoffice.search import search
from foundation.kernel.errors import BudgetExceeded
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from payments.models import Deposit, Outflow, Payment, Relayer, Settlement, Withdrawal
from policy.key_operations import create_api_key
from services.models import WebhookDelivery
from tests.support.deposits import make_deposit_aside
from tests.support.factories import decide, make_agent, make_service, new_address, new_name
from tests.support.scenes import Scene
from tests.support.together import pay_together

CHAIN = "eip155:31337"


@pytest.fixture
def entry(db):
    """An approved payment to a payee with a webhook."""
    return decide(make_agent(), make_service(webhook_url="https://hooks.example.com/"), "2.5")


def look_for(person, term, **query):
    response = person.client.get(reverse("backoffice:search"), {"q": term, **query})
    assert response.status_code == 200, response.content
    return response.content.decode().partition("<main")[2] or response.content.decode()


def links(html):
    return [unescape(link) for link in re.findall(r'<a href="([^"?]+)"><code>', html)]


def found_by(term):
    return [finding.url for finding in search(term, lambda _permission: True)]


def test_a_payment_is_found_by_all_that_names_it(auditor, entry):
    payment = Payment.objects.get(pk=entry.payment_id)
    for term in (
        payment.id,
        f"  {payment.id} ",
        payment.id[:20],
        payment.id[4:20].upper(),
        entry.idempotency_key,
        entry.tx,
    ):
        assert links(look_for(auditor, term))[0] == page_of(payment), term


def test_the_words_say_who_pays_whom(auditor, entry):
    html = look_for(auditor, entry.payment_id)

    assert f"{entry.agent_id} pays {entry.service} 2.50 USDC; approved" in html


def test_a_refusal_is_found_by_its_key_and_reads_like_one(auditor):
    agent, service, key = make_agent(), make_service(), new_name("key")
    with pytest.raises(BudgetExceeded):
        decide(agent, service, "11", key=key)
    entry = LogEntry.objects.get(agent=agent)

    html = look_for(auditor, key)

    assert links(html) == [page_of(entry)]
    assert "refused: Above the limit per payment" in html


def test_a_key_that_two_agents_used_finds_both(db):
    key = new_name("key")
    entries = [decide(make_agent(), make_service(), key=key) for _ in range(2)]

    assert {page_of(entry) for entry in entries} <= set(found_by(key))


def test_an_entry_is_found_by_its_id_and_by_its_beginning(entry):
    assert page_of(entry) in found_by(entry.id)
    assert page_of(entry) in found_by(entry.id[:24])


def test_agents_and_services_are_found_by_a_part_of_their_ids(entry):
    assert page_of(entry.agent) in found_by(entry.agent_id[3:].upper())
    assert page_of(Payment.objects.get(entry=entry).service) in found_by(entry.service[3:])


def test_a_key_is_found_by_its_id_its_beginning_and_its_name(entry):
    key, _ = create_api_key(name="Shop's robot", by="test")

    for term in (key.pk, key.pk[:12], "shop's rob"):
        assert page_of(key) in found_by(term), term


def test_a_payee_is_found_by_its_address_however_it_is_written(entry):
    service = Payment.objects.get(entry=entry).service
    for term in (
        service.address,
        service.address.lower(),
        f"evm-localnet:{service.address}",
        f"{CHAIN}:{service.address}",
    ):
        assert page_of(service) in found_by(term), term


def test_an_escrow_and_a_relayer_are_found_by_their_addresses(entry):
    escrow, relayer = settings.CHAINS[CHAIN].escrow, Relayer.objects.filter(chain=CHAIN)[0]

    assert found_by(escrow.lower()) == [reverse("admin:payments_chainstate_change", args=["eip155_3A31337"])]
    assert page_of(relayer) in found_by(relayer.address)


def test_what_comes_in_and_goes_out_is_found_by_transaction_and_address(db):
    deposit = make_deposit_aside()
    Deposit.objects.filter(pk=deposit.pk).update(chain=CHAIN)
    outflow = Outflow.objects.create(
        chain=CHAIN, tx=new_name("0xtx"), log_index=0, block_number=1, amount=1, why="R", found_at=utc_now()
    )
    withdrawal = Withdrawal.objects.create(
        reference="wdr_01m83dxtg99xk5r455cgk9p7yt", chain=CHAIN, escrow="", asset="USDC", amount=1,
        agent=make_agent(), recipient=new_address(), author="fiona", reason="R", created_at=utc_now(),
    )  # fmt: skip

    assert found_by(deposit.tx) == found_by(deposit.depositor) == [page_of(deposit)]
    assert found_by(outflow.tx) == [page_of(outflow)]
    for term in (withdrawal.reference, withdrawal.reference[:12], withdrawal.recipient):
        assert found_by(term) == [page_of(withdrawal)], term


def test_each_of_several_payments_of_a_transaction_is_found_by_it(db):
    first, second = pay_together(Scene(), 2, sends=False)

    (row,) = Settlement.objects.filter(payments__in=[first, second]).distinct()
    assert {page_of(first), page_of(second), page_of(row)} <= set(found_by(row.tx))


def test_a_webhook_is_found_by_the_id_of_its_event(entry):
    delivery = WebhookDelivery.objects.get(endpoint_id=entry.service)

    assert found_by(delivery.pk) == [page_of(delivery)]


@pytest.mark.parametrize(
    "term", ["", " ", "%", "_", "pay_", "log_", "'", "\\", "x" * 300, "0x", ":", "\u202e", "log_%"]
)
def test_odd_terms_find_nothing_and_break_nothing(auditor, entry, term):
    assert links(look_for(auditor, term)) == []


def test_only_what_a_person_may_view_is_found(make_person, entry):
    person = make_person()
    assert links(look_for(person, entry.idempotency_key)) == []
    assert "metadata" not in look_for(person, "nothing has this").partition("</form>")[2]

    Permission.objects.get(codename="view_logentry", content_type__app_label="ledger").user_set.add(
        person.client.session["_auth_user_id"]
    )

    assert links(look_for(person, entry.idempotency_key)) == [page_of(entry)]


def test_a_stranger_is_sent_to_the_login(client, db):
    assert client.get(reverse("backoffice:search"), {"q": "x"}).status_code == 302


@pytest.mark.parametrize("value", ["INV-2026-0815", "0815", 'a "quoted" \\ word', "Ärger \u202e", "815.5"])
def test_a_value_of_metadata_is_found(auditor, api, agent, payment, value):
    metadata = {"order": {"invoice": ["x", f"INV-2026-0815 {value}"]}, "number": 815.5}
    entry_id = api.get(f"/v1/payments/{api.pay({**payment, 'metadata': metadata}).json()['id']}").json()["logId"]

    html = look_for(auditor, value)

    assert links(html) == [page_of(LogEntry.objects.get(pk=entry_id))]


def test_a_name_in_metadata_is_no_value(auditor, api, agent, payment):
    api.pay({**payment, "metadata": {"customer-number": "7"}})

    assert links(look_for(auditor, "customer-number")) == []


def test_metadata_is_searched_a_span_at_a_time_and_goes_on_from_there(auditor, api, agent, payment, monkeypatch):
    monkeypatch.setattr(metadata_search, "SPAN", 2)
    api.pay({**payment, "metadata": {"invoice": "INV-77"}})
    for _ in range(3):
        api.pay(payment)

    first = look_for(auditor, "INV-77")
    (further,) = re.findall(r'href="(\?[^"]*before=[^"]*)"', first)
    second = auditor.client.get(reverse("backoffice:search") + unescape(further)).content.decode()

    assert links(first) == []
    assert "Decisions were read back to" in first
    assert len(links(second)) == 1


def test_metadata_is_asked_for_apart_if_something_else_is_found(auditor, api, agent, payment):
    key = new_name("key")
    api.pay({**payment, "metadata": {"ref": key}})
    api.pay(payment, key=key)

    assert "Look for it in metadata, too" in look_for(auditor, key)
    assert len(links(look_for(auditor, key, metadata="1"))) == 3


def test_the_search_takes_as_many_queries_however_much_is_found(auditor, entry):
    look_for(auditor, entry.payment_id[:8])
    with CaptureQueriesContext(connection) as few:
        look_for(auditor, entry.payment_id)
    for _ in range(5):
        decide(make_agent(), make_service())
    with CaptureQueriesContext(connection) as many:
        look_for(auditor, entry.payment_id[:9])

    assert len(many) == len(few)


def test_each_kind_is_found_by_an_index(entry):
    """With sequential scans forbidden, only what has no index still does one: tables that stay small."""
    small = {"policy_agent", "services_service", "payments_withdrawal", "payments_outflow", "payments_relayer",
             "payments_deposit", "policy_apikey"}  # fmt: skip
    with CaptureQueriesContext(connection) as queries:
        found_by(entry.payment_id)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for query in queries:
            cursor.execute(f"EXPLAIN {query['sql']}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert set(re.findall(r"Seq Scan on (\w+)", plan)) <= small, plan
