"""What the console shows of escrows and stopped chains, and who may start signing again."""

import re

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.kernel.times import utc_now
from payments.models import ChainState, Outflow
from payments.settling.chain_switch import stop_signing_on
from staff.models import AuditEntry
from tests.foundation.console.conftest import Person
from tests.support.factories import new_name
from tests.support.fake_chain import make_fake_chain
from tests.support.reconciliations import level, make_comparison

CHAIN, COMPARISON = "payments_chainstate", "payments_reconciliation"


@pytest.fixture
def chain(db: None) -> str:
    return make_fake_chain().name


def test_a_surplus_is_no_warning():
    style = (settings.BASE_DIR / "allowance/static/console/console.css").read_text()

    colours = dict(re.findall(r"\.badge:is\((.*?)\) \{ background: var\(--(\w+)-bg\)", style))
    assert [colour for states, colour in colours.items() if ".missing" in states] == ["bad"]
    assert not any(".surplus" in states for states in colours)  # it has the plain colour


def front_page(person: Person) -> str:
    page: str = person.get("index").content.decode()
    return page


@pytest.mark.parametrize(("drift", "verdict"), [("-0.01", "missing"), ("0", "ok"), ("0.01", "surplus")])
def test_a_comparison_has_a_badge(auditor, chain, drift, verdict):
    row = make_comparison(chain, drift=drift)

    for page in (auditor.get(f"{COMPARISON}_changelist"), auditor.get(f"{COMPARISON}_change", str(row.pk))):
        assert f'class="badge {verdict}"' in page.content.decode()


def test_only_the_newest_comparisons_are_shown_unless_the_history_is_asked_for(auditor, chain):
    old, new = make_comparison(chain, drift="-7.77"), make_comparison(chain, drift="1")

    newest = auditor.get(f"{COMPARISON}_changelist").content.decode()
    history = auditor.get(f"{COMPARISON}_changelist", which="history").content.decode()

    assert [f"/{row.pk}/change" in newest for row in (old, new)] == [False, True]
    assert [f"/{row.pk}/change" in history for row in (old, new)] == [True, True]
    assert "-7.77" in history


def test_payments_that_are_not_confirmed_are_named(auditor, chain):
    row = make_comparison(chain, unconfirmed=["pay_1", "pay_2"])

    assert "pay_1, pay_2" in auditor.get(f"{COMPARISON}_change", str(row.pk)).content.decode()
    assert '<td class="field-not_confirmed">2</td>' in auditor.get(f"{COMPARISON}_changelist").content.decode()


def test_a_chain_shows_why_it_is_stopped_and_what_does_not_match(auditor, chain):
    stop_signing_on(chain, reason="Money went <away>", by="ann")
    ChainState.objects.filter(pk=chain).update(mismatch="Another chain id")

    for page in (auditor.get(f"{CHAIN}_changelist"), auditor.get(f"{CHAIN}_change", chain)):
        assert "Money went &lt;away&gt;" in page.content.decode()
        assert "Another chain id" in page.content.decode()


def test_finance_staff_start_signing_again_and_that_is_kept(finance, chain):
    stop_signing_on(chain, reason="A test", by="ann")

    said = finance.carry_out(CHAIN, "start_signing", chain)

    assert said == [f"Started signing again on {chain}."]
    assert ChainState.objects.get(pk=chain).stopped_reason == ""
    assert AuditEntry.objects.get(subject=chain, action="chain.started").author == finance.name


def test_a_chain_is_named_by_its_alias(finance, db):
    chain = "solana:344CYC6QPrjfKUUBqcXLDFNyf9NBqJLa"
    ChainState.objects.update_or_create(pk=chain, defaults={"state": {}, "observed_at": utc_now()})

    (stopped,) = finance.carry_out(CHAIN, "stop_signing", chain)
    (started,) = finance.carry_out(CHAIN, "start_signing", chain)

    assert stopped == "Signing on solana-localnet is stopped: A test"
    assert started == "Started signing again on solana-localnet."


def test_an_auditor_does_not_start_signing_again(auditor, chain):
    stop_signing_on(chain, reason="A test", by="ann")

    response = auditor.try_to_act(CHAIN, "start_signing", chain)

    assert response.status_code == 403
    assert ChainState.objects.get(pk=chain).stopped_reason == "A test"
    assert "Start signing again" not in auditor.get(f"{CHAIN}_changelist").content.decode()


# --- The front page ---------------------------------------------------------------------------------------------------
def stop(chain: str) -> None:
    stop_signing_on(chain, reason="Said by a person", by="ann")


def mismatch(chain: str) -> None:
    ChainState.objects.filter(pk=chain).update(mismatch="Said by the watcher")


def lose_money(chain: str) -> None:
    make_comparison(chain, drift="-1")


def lose_a_payment(chain: str) -> None:
    make_comparison(chain, unconfirmed=["pay_1"])


@pytest.mark.parametrize(
    ("happen", "said"),
    [
        (stop, "Said by a person"),
        (mismatch, "Said by the watcher"),
        (lose_money, "Money is missing: 1.00 USDC."),
        (lose_a_payment, "1 settled payment is not confirmed"),
    ],
)
def test_the_front_page_warns(auditor, make_person, chain, happen, said):
    assert chain not in front_page(auditor)
    happen(chain)

    assert chain in front_page(auditor)
    assert said in front_page(auditor)
    assert chain not in front_page(make_person())


@pytest.mark.parametrize("drift", ["0", "1000000"])
def test_the_front_page_does_not_warn_of_what_is_over_or_no_alarm(auditor, chain, drift):
    make_comparison(chain, drift="-1", unconfirmed=["pay_1"])
    make_comparison(chain, drift=drift)

    assert chain not in front_page(auditor)


def test_as_many_queries_warn_of_many_chains_as_of_one(auditor):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            front_page(auditor)
        return len(captured)

    lose_money(make_fake_chain().name)
    one = queries()
    for _ in range(3):
        lose_money(make_fake_chain().name)

    assert queries() == one


def test_the_front_page_warns_of_what_is_promised_beyond_what_is_held(auditor, make_person, settings, chain):
    level(settings, chain, surplus="0")
    assert "Too much is promised" not in front_page(auditor)
    level(settings, chain, surplus="-2.5")

    assert "Too much is promised" in front_page(auditor)
    assert "2.50 too much." in front_page(auditor)
    assert "Too much is promised" not in front_page(make_person())


def test_the_front_page_warns_of_what_left_and_is_not_booked(auditor, chain):
    assert "not booked" not in front_page(auditor)
    Outflow.objects.create(
        chain=chain, tx=new_name("tx"), log_index=0, block_number=1, amount=0, why="R", found_at=utc_now()
    )

    assert "1 outflow is not booked" in front_page(auditor)
