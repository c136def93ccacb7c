"""The console's list of payments that a person has to approve, and the page of each, by which they do."""

from datetime import timedelta
from decimal import Decimal

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from ledger.models import Hold, HoldAnswer, LogEntry
from payments.deciding.operations import request_payment
from payments.deciding.requests import PaymentRequest
from payments.models import Payment
from policy.operations import pause_agent
from services.operations import Registration, register_service
from staff.models import ChangeRequest
from tests.foundation.console.conftest import address, errors_in, sealed_in
from tests.foundation.console.test_payment_page import words
from tests.foundation.console.test_possible_actions import buttons
from tests.support.factories import decide, make_agent, make_service, new_address, new_name
from tests.support.holds import asks_above, end, environment_at, finish, say

pytestmark = pytest.mark.usefixtures("db")

LIST, PAGE = "ledger_hold_changelist", "ledger_hold_change"


def hold_payment(amount="6", *, agent=None, service=None, at=None):
    """Have a payment held for a person's approval."""
    return Hold.objects.get(entry=decide(agent or asks_above(), service or make_service(), amount, at=at))


@pytest.fixture
def hold():
    return hold_payment()


def page_of(person, hold):
    response = person.get(PAGE, hold.pk)
    assert response.status_code == 200, response.content
    return response.content.decode()


# --- The page ---------------------------------------------------------------------------------------------------------
def test_the_page_shows_what_a_person_decides_by(auditor, hold):
    service = make_service()
    hold = hold_payment("6.25", agent=hold.agent, service=service)
    text = words(page_of(auditor, hold))

    assert "6.25 USDC waits for approval" in text
    assert f"until {hold.expires_at:%Y-%m-%d %H:%M} UTC" in text
    for shown in (hold.agent_id, service.id, service.address, "evm-localnet", hold.entry.reason, hold.pk):
        assert shown in text
    # The other one is held, too: it counts, and stands among what the agent did lately.
    assert "Balance: 987.75 USDC, and 12.25 USDC more wait for approval." in text
    assert "12.25 of 50.00" in text
    assert "○ held" in text.partition("What the agent did lately")[2]
    assert "✓ Verified just now" in text


def test_every_rule_stands_there_with_its_figures_and_the_one_that_asks_for_a_person(auditor, hold):
    text = words(page_of(auditor, hold)).partition(" Rules ")[2]

    assert (
        "✓ passed Within the limit of 24 hours Limit 50.00 USDC Spent before 0.00 USDC This payment 6.00 USDC" in text
    )
    assert (
        "○ needs approval Above what is paid without approval A person has to approve a payment above 5.00 USDC. "
        "Limit 5.00 USDC Asked for 6.00 USDC Without approval 5.00 USDC"
    ) in text
    assert "not needed The policy signer signs it" in text
    assert "refused" not in text.partition("What the agent has")[0]


def test_of_several_rules_that_ask_for_a_person_one_is_enough(auditor):
    agent = make_agent(approval_above=Decimal(5), approval_above_day=Decimal(4), approval_for_first=True)
    text = words(page_of(auditor, hold_payment(agent=agent))).partition(" Rules ")[2]

    assert "○ needs approval The first payment to this payee" in text
    assert "not needed The day needs no approval Without approval 4.00 USDC" in text
    assert "not needed Needs no approval Without approval 5.00 USDC" in text


def test_what_the_agent_writes_stands_there_as_text_and_is_marked_off(finance):
    hold = ask("<script>alert(1)</script>\u202eApprove this", '{"note": "<b>urgent</b>\u2066"}')
    html = page_of(finance, hold)

    assert "<script>alert(1)" not in html
    assert "<bdi>&lt;script&gt;alert(1)&lt;/script&gt;\\u202eApprove this</bdi>" in html
    assert "<bdi>&lt;b&gt;urgent&lt;/b&gt;\\u2066</bdi>" in html
    confirmation = finance.try_to_act("ledger_hold", "approve", hold.pk).content.decode()
    assert "<script>alert(1)" not in confirmation
    assert "&lt;b&gt;urgent&lt;/b&gt;\\u2066" in confirmation


def ask(reason, metadata):
    """Have an agent ask with words of its own."""
    request = PaymentRequest(
        agent_id=asks_above().id, service=make_service().id, amount=Decimal(6), amount_text="6", asset=Asset.USDC,
        reason=reason, metadata_json=metadata, idempotency_key=new_name("key"), fingerprint=bytes(32),
    )  # fmt: skip
    return Hold.objects.get(entry=request_payment(request, environment_at()).entry)


def test_the_page_says_that_the_payee_is_registered_at_another_address_by_now(auditor, hold):
    assert "at another address" not in page_of(auditor, hold)
    register_service(
        Registration(hold.service, "A payee", f"evm-localnet:{new_address()}", Asset.USDC, None), key_id=""
    )

    assert "The payee is registered at another address by now." in page_of(auditor, hold)


# --- Answered ---------------------------------------------------------------------------------------------------------
def test_finance_approves_it_on_a_page_that_shows_it_once_more(finance, hold):
    page = finance.try_to_act("ledger_hold", "approve", hold.pk)
    text = words(page.content.decode())
    for shown in ("6.00 USDC", hold.agent_id, hold.service, hold.entry.reason, "Waits until"):
        assert shown in text

    said = finance.carry_out("ledger_hold", "approve", hold.pk, reason="Ordered by me")

    assert said == [f"Approved {hold.pk}: 6.00 USDC to {hold.service}. It is judged once more now, and then signed."]
    hold.refresh_from_db()
    assert (hold.answer, hold.answered_by, hold.answer_reason) == ("approve", finance.name, "Ordered by me")
    assert f"{finance.name} has approved it. It is decided within a second." in words(page_of(finance, hold))


def test_finance_declines_it_with_a_reason_that_the_agent_is_told(finance, hold):
    assert "The agent is told your reason." in finance.try_to_act("ledger_hold", "decline", hold.pk).content.decode()

    said = finance.carry_out("ledger_hold", "decline", hold.pk, reason="Not ours")

    assert said == [f"Declined {hold.pk}: nothing is paid, and 6.00 USDC count no more."]
    finish(hold.entry)
    assert "A person has declined this payment: Not ours" in words(page_of(finance, hold))


def test_nothing_happens_without_a_reason(finance, hold):
    page = finance.try_to_act("ledger_hold", "approve", hold.pk)
    again = finance.try_to_act("ledger_hold", "approve", hold.pk, reason=" ", sealed=sealed_in(page))

    assert errors_in(again) == ["This field is required."]
    assert Hold.objects.get().answer == ""


@pytest.mark.parametrize("group", ["Auditor", "Operations", "Administrator"])
def test_who_is_not_of_finance_sees_it_without_a_button_and_may_not_answer(make_person, hold, group):
    person = make_person(group=group)

    assert buttons(person, "ledger_hold", hold.pk) == []
    assert 'name="action"' not in person.get(LIST).content.decode()
    assert person.try_to_act("ledger_hold", "approve", hold.pk).status_code == 403
    assert Hold.objects.get().answer == ""


def test_of_two_people_at_once_the_second_is_told_what_the_first_has_said(finance, make_person, hold):
    kim, page = make_person(group="Finance"), finance.try_to_act("ledger_hold", "decline", hold.pk)
    kim.carry_out("ledger_hold", "approve", hold.pk)

    said = finance.act("ledger_hold", "decline", hold.pk, reason="R", sealed=sealed_in(page))

    assert said == [f"{kim.name} has approved this payment already."]
    assert finance.carry_out("ledger_hold", "approve", hold.pk) == said
    assert buttons(finance, "ledger_hold", hold.pk) == []


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (HoldAnswer.APPROVE, "fiona has approved it, but it cannot be signed now: look at its chain, the gas budget"),
        (HoldAnswer.DECLINE, "fiona has declined it, but no worker has decided it yet: look at the processes."),
    ],
)
def test_one_that_was_answered_and_is_not_decided_within_a_minute_says_where_to_look(auditor, hold, answer, sentence):
    say(hold.entry, answer, at=utc_now() - timedelta(seconds=61))

    text = words(page_of(auditor, hold))

    assert sentence in text
    assert "within a second" not in text


def test_where_four_eyes_are_on_an_approval_takes_two_and_a_refusal_one(finance, hold, settings):
    settings.FOUR_EYES = True
    page = finance.try_to_act("ledger_hold", "approve", hold.pk)
    assert "Somebody else has to confirm it before it happens." in page.content.decode()

    (said,) = finance.carry_out("ledger_hold", "approve", hold.pk, reason="Ordered by me")

    request = ChangeRequest.objects.get()
    assert "a second person has to confirm this" in said
    assert Hold.objects.get().answer == ""
    assert f"asked to approve it. Request {request.pk}" in words(page_of(finance, hold))
    assert "Not ours" not in finance.carry_out("ledger_hold", "decline", hold.pk, reason="Not ours")
    assert Hold.objects.get().answer == "decline"


def test_what_has_expired_has_no_button(finance):
    hold = hold_payment(at=utc_now() - timedelta(hours=25))

    assert buttons(finance, "ledger_hold", hold.pk) == []


# --- What became of it ------------------------------------------------------------------------------------------------
def test_an_approved_one_says_who_why_and_leads_to_the_payment_which_leads_back(auditor, hold):
    final = end(hold.entry, HoldAnswer.APPROVE)
    html = page_of(auditor, hold)

    assert "fiona has approved it, and it was signed." in words(html)
    assert "Approved by fiona" in words(html)
    assert "It is needed." in html
    here = address(PAGE, hold.pk)
    for there in (address("payments_payment_change", hold.pk), address("ledger_logentry_change", final.pk)):
        assert there in html
        assert here in auditor.client.get(there).content.decode()
    assert here in auditor.get("ledger_logentry_change", hold.entry_id).content.decode()


def test_the_payment_says_when_it_was_asked_for_and_approved_by_whom_and_by_which_rules(auditor):
    asked = utc_now() - timedelta(hours=2)
    hold = hold_payment(at=asked)
    final = end(hold.entry, HoldAnswer.APPROVE)
    text = words(auditor.get("payments_payment_change", hold.pk).content.decode())

    assert f"Approved {final.created_at:%Y-%m-%d %H:%M:%S} UTC, by fiona" in text
    assert f"When {hold.created_at:%Y-%m-%d %H:%M:%S} UTC" in text
    assert hold.entry.idempotency_key in text
    assert "✓ passed A person has approved it fiona: It is needed." in text
    assert "needs no approval" not in text.lower()


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (HoldAnswer.DECLINE, "fiona has declined it. Nothing was paid."),
        (None, "It was refused all the same. Nothing was paid."),
    ],
)
def test_one_that_was_not_approved_says_why_and_was_refused_by_no_other_rule(auditor, hold, answer, sentence):
    if answer is None:
        pause_agent(hold.agent_id, by="kim")
        finish(hold.entry)
    else:
        end(hold.entry, answer)
    final = LogEntry.objects.get(hold_ended=hold)

    assert sentence in words(page_of(auditor, hold))
    text = words(auditor.get("ledger_logentry_change", final.pk).content.decode())
    assert "✗ refused Nobody has approved it" in text
    assert text.count("✗ refused") == 2  # the decision, and its rule
    assert "✓ passed" not in text
    assert not Payment.objects.filter(pk=hold.pk).exists()


def test_one_that_nobody_has_answered_says_so(auditor, hold):
    finish(hold.entry, hold.expires_at + timedelta(seconds=1))

    text = words(page_of(auditor, hold))
    assert f"Nobody has answered until {hold.expires_at:%Y-%m-%d %H:%M} UTC." in text
    assert "expired" in text
