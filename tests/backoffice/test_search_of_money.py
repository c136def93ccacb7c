"""What is looked for in a fraud enquiry: an address that was paid earlier, a shortened hash, an amount."""

import re
from dataclasses import replace
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from backoffice import amount_search
from backoffice.amount_search import read_amount
from backoffice.hits import page_of
from foundation.kernel.assets import Asset
from foundation.kernel.errors import BudgetExceeded
from foundation.kernel.times import utc_now
from ledger.models import LogEntry
from payments.models import Deposit, Outflow, Payment
from services.models import Service
from services.operations import Registration, approve_service, register_service
from tests.backoffice.test_search import found_by, look_for
from tests.support.deposits import make_deposit_aside
from tests.support.factories import decide, make_agent, make_service, new_address, new_name

PAYMENTS_TO = "/console/payments/payment/?payee="


@pytest.fixture
def moved(db):
    """A payee that was paid at one address and then at another one; returns it, both addresses, and the agent."""
    asked = Registration(new_name("couriers"), "Couriers", f"evm-localnet:{new_address()}", Asset.USDC, None)
    agent, addresses = make_agent(), []
    for _ in range(2):
        service, _ = register_service(asked)
        addresses.append(service.address)
        approve_service(asked.id, by="anna")
        decide(agent, Service.objects.get(pk=asked.id), "1.25")
        asked = replace(asked, recipient=f"evm-localnet:{new_address()}")
    return service, *addresses, agent


def in_words(person, term):
    return re.sub(r"<[^>]+>", "", look_for(person, term))


def test_an_address_that_was_paid_earlier_is_found_with_what_was_paid_to_it(auditor, moved):
    service, old, new, agent = moved
    decide(agent, Service.objects.get(pk=service.pk), "1.25")

    page = in_words(auditor, old)

    assert f"{service.pk} was paid at {old} on evm-localnet until it was registered at another address on" in page
    assert ": 1 payment, the last one on" in page
    assert ": 2 payments, the last one on" in in_words(auditor, new)
    assert any(url.startswith(f"{PAYMENTS_TO}{service.pk}") for url in found_by(old))


@pytest.mark.parametrize(
    "write",
    [
        str.lower,
        "evm-localnet:{}".format,
        lambda old: f"{old[:6]}…{old[-4:]}",  # as notices write it
        lambda old: f"{old[:10]}...{old[-6:]}",
    ],
)
def test_such_an_address_is_found_however_it_is_written(moved, write):
    service, old, _, _ = moved

    assert any(url.startswith(f"{PAYMENTS_TO}{service.pk}") for url in found_by(write(old)))


@pytest.mark.django_db
def test_an_address_at_which_nothing_was_paid_is_found_as_its_payee_alone():
    service = make_service()

    assert found_by(service.address) == [page_of(service)]
    assert found_by(f"{service.address[:8]}…{service.address[-6:]}") == [page_of(service)]


def test_a_payment_is_found_by_a_shortened_transaction(moved):
    entry = LogEntry.objects.filter(agent=moved[3]).latest("pk")
    payment, tx = Payment.objects.get(entry=entry), str(entry.tx)

    for term in (tx[:12], tx[:12].upper().replace("X", "x"), f"{tx[:6]}…{tx[-4:]}"):
        assert page_of(payment) in found_by(term), term
    assert page_of(payment) not in found_by(f"{tx[:12]}…{'z' * 4}")


@pytest.mark.django_db
def test_a_deposit_is_found_by_a_shortened_transaction():
    deposit = make_deposit_aside()
    Deposit.objects.filter(pk=deposit.pk).update(chain="eip155:31337")

    assert page_of(deposit) in found_by(deposit.tx[:-3])


@pytest.mark.parametrize("write", ["{}", "{} USDC", "{}000", "0{}"])
@pytest.mark.django_db
def test_what_was_paid_and_refused_is_found_by_its_amount(write):
    agent, service = make_agent(), make_service()
    entry = decide(agent, service, "7.654321")
    with pytest.raises(BudgetExceeded):
        decide(agent, service, "17.654321")

    payment = Payment.objects.get(entry=entry)
    refused = LogEntry.objects.filter(agent=agent, result="blocked").get()
    assert page_of(payment) in found_by(write.format("7.654321"))
    assert page_of(refused) in found_by(write.format("17.654321"))
    assert page_of(payment) not in found_by("7.654321 SOL")


@pytest.mark.django_db
def test_what_left_an_escrow_is_found_by_its_amount():
    outflow = Outflow.objects.create(
        chain="eip155:31337", tx=new_name("tx"), log_index=0, block_number=1, asset="USDC", amount="87.654321", why="R",
        found_at=utc_now(),
    )  # fmt: skip

    assert page_of(outflow) in found_by("87.654321")
    assert page_of(outflow) not in found_by("87.654321 EURC")


def test_an_amount_is_looked_for_among_the_newest(auditor, monkeypatch):
    monkeypatch.setattr(amount_search, "MOST_ROWS", 2)
    agent, service = make_agent(), make_service()
    payments = [Payment.objects.get(entry=decide(agent, service, "3.21")) for _ in range(3)]

    found = found_by("3.21")

    assert [page_of(payment) in found for payment in payments] == [False, True, True]
    assert "Amounts are looked for among the newest" in in_words(auditor, "3.21")


@pytest.mark.parametrize(
    ("term", "value"),
    [
        ("2.50", "2.5"),
        ("1,250.00", "1250"),
        ("1,250 USDC", "1250"),
        ("7", "7"),
        ("2.50 GOLD", None),
        ("1,25", None),
        ("0x1", None),
        ("-5", None),
        ("9" * 20 + "." + "9" * 18, "9" * 20 + "." + "9" * 18),
    ],
)
def test_amounts_are_read_as_the_console_writes_them(term, value):
    read = read_amount(term)

    assert (read and read.value) == (value and Decimal(value))
    assert read is None or all(Decimal(text) == read.value for text in read.as_written)


@pytest.mark.parametrize(
    "term", ["0x12345678", "0x1234…abcd", "7.654321", "0x5432a4f2C62B4DBD9c6C1eDa5cd3a1bFD3DBD9D2"]
)
def test_none_of_it_reads_a_large_table_without_an_index(moved, term):
    small = {"policy_agent", "services_service", "payments_withdrawal", "payments_outflow", "payments_relayer",
             "payments_deposit"}  # fmt: skip
    with CaptureQueriesContext(connection) as queries:
        found_by(term)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
        for query in queries:
            cursor.execute(f"EXPLAIN {query['sql']}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
            assert set(re.findall(r"Seq Scan on (\w+)", plan)) <= small, plan
