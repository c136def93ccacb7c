"""Faults of webhooks, notices, staff and books, each planted for real."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from backoffice.alarms.looking import look
from foundation.kernel.secrecy import Secret
from foundation.kernel.times import utc_now
from operators.doctor.diagnoses import State
from payments.models import Reconciliation
from policy.findings import FINDERS
from policy.operations import switch_signer
from policy.signer import local_signer
from staff.audit import record
from tests.operators.doctor.conftest import make_person
from tests.operators.doctor.diagnosis import the_trouble, trouble_with, troubles
from tests.support.factories import decide, make_agent, make_service
from tests.support.ports import free_ports
from tests.support.webhook_rows import make_delivery, make_endpoint

pytestmark = pytest.mark.usefixtures("db")


@pytest.fixture
def nowhere(settings: Any) -> str:
    """A port of this machine at which nobody listens, where webhooks may go."""
    settings.WEBHOOKS_ALLOW_PRIVATE = True
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture
def another_key(settings: Any) -> Iterator[Secret]:
    """Entries of the log that were signed with a key which is exchanged then; gives the earlier one."""
    decide(make_agent(), make_service())
    before = settings.POLICY_SIGNER_ED25519_KEY
    settings.POLICY_SIGNER_ED25519_KEY = Secret(bytes([9] * 32))
    local_signer.cache_clear()
    yield before
    local_signer.cache_clear()


# --- Webhooks and notices ---------------------------------------------------------------------------------------------
def test_no_way_out_to_the_payees(nowhere):
    make_endpoint(url=f"http://{nowhere}/events")
    found = the_trouble("webhooks")
    assert (found.subject, found.state) == (nowhere, State.ERROR)
    assert found.mend.startswith("Open the way for webhooks: its DNS, and outgoing connections to port 443")


def test_a_payee_inside(settings):
    settings.WEBHOOKS_ALLOW_PRIVATE = True
    make_endpoint(url="http://127.0.0.1:1/events")
    settings.WEBHOOKS_ALLOW_PRIVATE = False
    assert the_trouble("webhooks").says == "No connection: 127.0.0.1 is not a public address."


def test_deliveries_that_nobody_takes():
    make_delivery(make_endpoint(url="https://hooks.invalid/"), next_attempt_at=utc_now() - timedelta(minutes=5))
    found = trouble_with("webhooks", "webhooks overdue")
    assert found.says == "Webhooks: 1 delivery is overdue: is the webhooks process running?"
    assert "the process `webhooks` runs, and `beat`" in found.mend


def test_a_mail_server_that_is_away(mail, staff, settings):
    settings.EMAIL_PORT = free_ports(1)[0]
    found = the_trouble("notices")
    assert (found.subject, found.state) == ("mail server", State.ERROR)
    assert "ConnectionRefusedError" in found.says
    assert found.mend.startswith("Correct EMAIL_URL")


def test_a_mail_server_that_does_not_let_us_in(mail, staff, settings):
    settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "we", "a-password"
    found = the_trouble("notices")
    assert "It cannot be used: SMTP" in found.says
    assert "a-password" not in str(found)


def test_a_channel_that_nobody_listens_at(mail, staff, settings, nowhere):
    settings.NOTICE_URLS = {"finance": f"http://{nowhere}/a-secret-path"}
    found = the_trouble("notices")
    assert found.subject == "finance"
    assert "Correct NOTICE_URLS" in found.mend
    assert "a-secret-path" not in str(found)


def test_a_role_that_nobody_tells(mail, staff):
    for person in staff:
        person.groups.set(person.groups.exclude(name="Operations"))
    found = the_trouble("notices")
    assert found.says == "No alarm reaches Operations: no e-mail address and no URL."
    assert "operations=https://… in NOTICE_URLS" in found.mend


# --- Staff ------------------------------------------------------------------------------------------------------------
def test_no_administrator(staff):
    type(staff[0]).objects.update(is_active=False)
    found = the_trouble("staff")
    assert (found.subject, found.state) == ("administrators", State.ERROR)
    assert found.mend.startswith("python manage.py createsuperuser")


def test_one_administrator_where_two_are_needed(staff, settings):
    settings.FOUR_EYES = True
    type(staff[0]).objects.filter(pk=staff[0].pk).update(is_active=False)
    found = the_trouble("staff")
    assert (found.subject, found.state) == ("administrators", State.WARNING)


@pytest.fixture
def in_hand(staff, settings):
    """One of two Administrators has made a link for the other one alone, as the release before let them."""
    settings.FOUR_EYES = True
    subject, by = staff[0].username, staff[1].username
    record("person.link_made", subject_type="person", subject=subject, by=by)
    return subject, by


def test_two_administrators_who_are_not_independent(in_hand):
    found = trouble_with("staff", "administrators")
    assert (found.says, found.state) == (
        "There are 2, of whom no two are independent: nobody can make or change an account.", State.WARNING
    )  # fmt: skip


def test_an_account_that_another_person_could_use(in_hand, settings):
    subject, by = in_hand
    found = trouble_with("staff", subject)
    assert found.says.startswith(f"{by} could use this account")
    assert found.mend.startswith("Two Administrators make a one-time link")
    settings.FOUR_EYES = False
    assert troubles("staff") == []


def test_an_administrator_without_a_second_factor(staff):
    careless = make_person(has_authenticator=False)
    found = the_trouble("staff")
    assert found.subject == str(careless)
    assert "Let " in found.mend


# --- Books ------------------------------------------------------------------------------------------------------------
def test_a_key_of_receipts_that_is_not_published(another_key, compared, settings):
    found = next(one for one in troubles("books") if one.subject.startswith("key "))
    assert "is not among the published keys" in found.says
    assert "into RETIRED_RECEIPT_KEYS" in found.mend

    settings.RETIRED_RECEIPT_KEYS = [Ed25519PrivateKey.from_private_bytes(another_key).public_key().public_bytes_raw()]
    assert [one for one in troubles("books") if one.subject.startswith("key ")] == []


def test_an_escrow_that_was_not_compared_lately(compared):
    Reconciliation.objects.filter(chain__startswith="eip155").update(created_at=utc_now() - timedelta(hours=1))
    found = the_trouble("books")
    assert (found.subject, found.state) == ("comparisons evm-localnet", State.ERROR)
    assert found.says.startswith("evm-localnet: Its escrow was not compared with the ledger since")
    assert "python manage.py reconcile" in found.mend


def test_promises_beyond_what_is_held(compared):
    make_agent(balance="1000000000")
    found = trouble_with("books", "pools USDC")
    assert "are promised and the escrows hold" in found.says
    assert found.mend.endswith("docs/operate/promises-exceed-holdings.md")


def test_an_alarm_that_is_open(compared):
    switch_signer(is_signing=False, by="fiona")
    look(utc_now(), FINDERS)
    found = trouble_with("books", "signer")
    assert "The policy signer is out of service" in found.says
    assert found.mend.startswith("The console's page /console/")
