"""Staff see on several servers what they see on one: all pages, lists over all agents, their files, and the figures."""

import csv
import json
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db.models import Model, Sum
from django.test import Client
from pytest_django.plugin import DjangoDbBlocker

from backoffice.models import DailyTotal
from backoffice.rollups import LAG, roll_up
from foundation import groups
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from operators.metrics.exposition import read_metrics
from payments.models import Payment
from payments.reconciling.reconciliation import reconcile
from policy.models import Agent
from services.models import Service
from services.served_chains import served_chains
from tests.distributed.storming import agent_in_each_group, shots_of
from tests.support.factories import decide, make_agent, make_api_key, make_service, new_name
from tests.support.house import House
from tests.support.storms import strike
from tests.support.trees import make_child

pytestmark = pytest.mark.long(60)
PAID = 3
# These lead on to others where there is nothing to show.
LEAD_ON = {"/console/policy/signerswitch/"}


@pytest.fixture(scope="module")
def service(house: House, django_db_blocker: DjangoDbBlocker) -> Service:
    """A payee that agents of all groups have paid, one of them in a tree; another agent's payment waits."""
    with django_db_blocker.unblock():
        agents, key, held = agent_in_each_group(), make_api_key(), make_agent(approval_above=Decimal(5))
        service = make_service(webhook_url="https://hooks.example.com/")
        make_child(next(iter(agents.values())))
        strike([shot for agent in agents.values() for shot in shots_of(house, agent.pk, service.pk, key, PAID)])
        with groups.within_group_of(held.pk):
            decide(held, service, "6")
        for chain, adapter in served_chains().items():
            reconcile(chain, adapter)
        return service


@pytest.fixture(scope="module")
def browser(service: Service, django_db_blocker: DjangoDbBlocker) -> Client:
    with django_db_blocker.unblock():
        client = Client(SERVER_NAME="localhost", raise_request_exception=False)
        client.force_login(User.objects.create_superuser(new_name("ada"), password="a long enough password"))
        return client


def first_of(model: type[Model]) -> list[Model]:
    rows = model._base_manager.order_by("pk")[:1]
    return groups.read_of(None, rows.all)[:1] if groups.are_of_groups(rows) else [*rows]


def pages(service: Service) -> Iterator[str]:
    """Name each list, a row of each, and the pages beside them."""
    for page in ("", "notices/", "roles/", "search/?q=agent", "policy/agent/templates/", "spending/agents/"):
        yield f"/console/{page}"
    for model in admin.site._registry:
        name = f"/console/{model._meta.app_label}/{model._meta.model_name}/"
        yield name
        yield from (f"{name}{quote(str(row.pk))}/change/" for row in first_of(model))
    agent, entry = (first_of(model)[0].pk for model in (Agent, LogEntry))
    yield from (f"/console/policy/agent/{agent}/{what}/" for what in ("policy", "history", "fund", "follow", "tree"))
    yield from (f"/console/ledger/logentry/{entry}/{what}" for what in ("receipt", "receipt.json"))
    yield from (f"/console/statements/agent/{agent}/", f"/console/statements/payee/{service.pk}/", "/readyz")


def test_every_page_is_there(browser, service):
    found = {page: browser.get(page).status_code for page in pages(service) if page not in LEAD_ON}

    assert {page: status for page, status in found.items() if status != 200} == {}
    assert len(found) > 50


def test_lists_and_statements_are_files_of_the_rows_of_all_groups(browser, service):
    paid = set(groups.read_of(None, Payment.objects.filter(service=service).values_list("pk", flat=True).all))
    assert len(paid) == PAID * len(groups.every_group())

    listed = rows_of(browser.get(f"/console/payments/payment/?payee={service.pk}&export=csv"))
    stated = rows_of(browser.get(f"/console/statements/payee/{service.pk}/?format=csv"))

    assert [row["id"] for row in listed] == sorted(paid)
    assert {row["paymentId"] for row in stated if row["paymentId"]} == paid


def rows_of(answer: Any) -> list[dict[str, str]]:
    assert answer.status_code == 200, answer.content
    text = b"".join(answer.streaming_content).decode("utf-8-sig")
    return list(csv.DictReader(StringIO(text)))


def test_totals_by_day_are_of_the_log_of_all_groups(service):
    now = utc_now() + 2 * LAG

    roll_up(now)
    roll_up(now + timedelta(seconds=1))  # what is counted is not counted again

    totals = DailyTotal.objects.filter(service=service.pk).order_by().values_list("result").annotate(Sum("count"))
    assert dict(totals) == {"approved": PAID * len(groups.every_group()), "held": 1}


def test_commands_and_metrics_look_at_all_groups(service):
    for command in ("verify_log", "reconcile", "webhooks", "gas", "shadows", "clocks", "chains"):
        call_command(command, stdout=StringIO(), stderr=StringIO())  # raises if it finds anything wrong

    metrics = read_metrics().decode()
    assert 'allowance_books_imbalance{asset="USDC"} 0.0' in metrics


def test_the_doctor_finds_the_books_of_all_groups_in_order(service):
    out = StringIO()
    with suppress(CommandError):  # the payee's name leads nowhere, and nobody is an Administrator here
        call_command("doctor", stdout=out, stderr=StringIO())

    books = [one for one in json.loads(out.getvalue().splitlines()[-1])["findings"] if one["area"] == "books"]

    assert {"promises", "receipts", "outflows"} <= {one["subject"] for one in books}
    assert [one for one in books if one["state"] == "error"] == []
