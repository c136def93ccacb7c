"""The days of those who work in the console, in a browser, at a whole installation: four eyes and second factors on."""

from decimal import Decimal

import pytest

from tests.days import accounts, chains, keys, limits, payees, payments
from tests.days.agents import Agents, why_refused
from tests.days.installation import BUYER, COMPUTE, EVE, GPU, INFERENCE, RESEARCH, WEATHER
from tests.days.people import Office
from tests.support.browser import needs_browser
from workshop.demo.people import ADA, ADAM, BEN, FIONA, OLGA
from workshop.tests.demo.running import wait_for

pytestmark = [pytest.mark.long(150), needs_browser]


@pytest.mark.parametrize(
    ("name", "works_with", "may_not"),
    [
        (FIONA, "/console/services/service/", "/console/auth/user/"),
        (BEN, "/console/policy/agent/", "/console/policy/apikey/add/"),
        (OLGA, "/console/policy/apikey/add/", "/console/auth/user/"),
        (ADA, "/console/staff/auditentry/", "/console/policy/apikey/add/"),
        (ADAM, "/console/auth/user/add/", "/console/policy/agent/add/"),
    ],
)
def test_each_role_signs_in_with_a_second_factor_to_its_own_pages(
    office: Office, name: str, works_with: str, may_not: str
) -> None:
    person = office[name]

    person.open(works_with)
    assert person.page.url.endswith(works_with)
    assert person.status_of(may_not) == 403


def test_the_password_alone_opens_nothing_and_a_code_is_taken_once(office: Office) -> None:
    authenticator = office[ADA].authenticator
    assert authenticator
    code = authenticator.code()
    again, other = office.open_browser(ADA), office.open_browser(ADA)

    again.enter_password()
    again.open("/console/services/service/")
    assert "/login/" in again.page.url
    again.enter_code(code)
    assert again.page.url.endswith("/console/")

    other.enter_password()
    other.enter_code(code)
    assert "/login/code/" in other.page.url


def test_a_changed_payee_is_approved_by_two_and_the_next_payment_passes(office: Office, agents: Agents) -> None:
    fiona, ben = office[FIONA], office[BEN]
    assert agents.register(GPU, f"evm-localnet:{payees.NEW_ADDRESS}") == "pending_approval"
    assert why_refused(agents.pay(RESEARCH, GPU, "1.00")) == (403, "service_approved")

    payees.see_what_changed(fiona)
    payees.ask_for_approval(fiona)
    shown = payees.is_refused_alone(fiona)
    assert why_refused(agents.pay(RESEARCH, GPU, "1.00")) == (403, "service_approved")
    payees.confirm_what_was_seen(ben, shown)

    payment = agents.pay(RESEARCH, GPU, "1.00")
    assert payment.status_code == 201, payment.text
    assert agents.wait_until_settled(payment)["recipient"].lower().endswith(payees.NEW_ADDRESS)


def test_a_lowered_limit_refuses_exactly_what_its_preview_named_and_a_raised_one_waits(
    office: Office, agents: Agents
) -> None:
    fiona, ben = office[FIONA], office[BEN]
    for amount in ("8.00", "5.00", "2.00"):
        assert agents.pay(BUYER, WEATHER, amount).status_code == 201

    refused, let_through = limits.preview(fiona, "5")
    assert "1 payment, 8.00 USDC" in refused
    assert "Above the limit per payment" in refused
    assert "None." in let_through
    limits.put_in_force(fiona, "Nothing costs more")
    for amount in ("8.00", "5.000001"):
        assert why_refused(agents.pay(BUYER, WEATHER, amount)) == limits.TOO_MUCH
    for amount in ("5.00", "2.00"):
        assert agents.pay(BUYER, WEATHER, amount).status_code == 201

    refused, let_through = limits.preview(fiona, "8")
    assert "None." in refused
    assert "2 payments, 13.000001 USDC" in let_through
    limits.ask_for_it(fiona, "A dearer payee")
    assert why_refused(agents.pay(BUYER, WEATHER, "8.00")) == limits.TOO_MUCH
    limits.confirm_it(ben, "5.00 USDC → 8.00 USDC")
    assert agents.pay(BUYER, WEATHER, "8.00").status_code == 201
    assert why_refused(agents.pay(BUYER, WEATHER, "8.000001")) == limits.TOO_MUCH


def test_a_stopped_chain_raises_an_alarm_on_every_page_and_is_started_again_by_two(
    office: Office, agents: Agents
) -> None:
    olga, ben = office[OLGA], office[BEN]
    assert agents.pay(COMPUTE, INFERENCE, "1.00", "SOL").status_code == 201

    chains.stop_chain(olga)
    assert agents.pay(COMPUTE, INFERENCE, "0.50", "SOL").status_code == 503
    for person in (olga, ben):
        chains.wait_for_alarm(person)
    chains.deal_with_alarm(ben)
    assert chains.pages_with_alarm(ben) == []
    assert chains.is_alarm_open(ben)

    chains.ask_to_start(olga)
    assert agents.pay(COMPUTE, INFERENCE, "0.50", "SOL").status_code == 503
    chains.confirm_start(ben)
    payment = agents.pay(COMPUTE, INFERENCE, "0.50", "SOL")
    assert payment.status_code == 201, payment.text
    agents.wait_until_settled(payment)
    wait_for(lambda: not chains.is_alarm_open(ben), chains.PATIENCE_S)


def test_a_key_is_issued_shown_once_used_rotated_and_revoked(office: Office, agents: Agents) -> None:
    olga = office[OLGA]

    first = agents.with_key(keys.issue_key(olga, RESEARCH))
    assert first.pay(RESEARCH, WEATHER, "0.10").status_code == 201
    assert first.pay(BUYER, WEATHER, "0.10").status_code == 403

    second = agents.with_key(keys.rotate_key(olga))
    for program in (first, second):
        assert program.pay(RESEARCH, WEATHER, "0.10").status_code == 201

    keys.revoke_key(olga)
    assert second.pay(RESEARCH, WEATHER, "0.10").status_code == 401


def test_a_payment_is_found_by_its_idempotency_key_and_its_receipt_is_verified(office: Office, agents: Agents) -> None:
    key = "invoice 2026/11 no. 7"
    payment = agents.pay(RESEARCH, WEATHER, "1.25", key=key).json()

    payments.find_by_key(office[FIONA], key, payment["id"])
    payments.is_receipt_verified(office[FIONA])


def test_an_auditor_exports_what_the_api_says_and_sees_no_button(office: Office, agents: Agents) -> None:
    ada = office[ADA]
    for amount in ("0.25", "1.5", "0.000001"):
        agents.wait_until_settled(agents.pay(RESEARCH, WEATHER, amount))

    rows = payments.export_payments(ada, RESEARCH)
    approved = payments.approved_in_log(agents, RESEARCH)
    assert {row["logId"]: Decimal(row["amount"]) for row in rows} == approved
    budget = agents.get(f"/v1/agents/{RESEARCH}/budget").json()
    assert payments.total(rows) == Decimal(budget["spentThisWeek"])
    assert payments.buttons_seen_by(ada) == []


def test_an_account_is_made_by_two_opened_once_by_a_link_in_two_halves_and_deactivated(office: Office) -> None:
    adam, eve = office[ADAM], office[EVE]
    accounts.ask_for_account(adam, "Operations")
    accounts.confirm_account(eve)
    request = accounts.ask_for_link(adam)
    link = accounts.confirm_link(eve)
    code = accounts.see_code(adam, request)

    nina, stranger = office.open_browser(accounts.NAME), office.open_browser("somebody")
    assert not accounts.choose_password(stranger, link, "AAAA-AAAA-AAAA")
    assert accounts.choose_password(nina, link, code)
    assert accounts.is_link_used_up(stranger, link)
    nina.sign_in_first(accounts.PASSWORD)
    nina.open("/console/policy/apikey/add/")
    assert nina.page.get_by_role("heading", name="Issue an API key").is_visible()

    before = accounts.roles_of(adam, ADAM)
    accounts.give_oneself_a_role(adam, "Finance")
    assert accounts.roles_of(adam, ADAM) == before

    accounts.deactivate(adam)
    nina.open("/console/")
    assert "/login/" in nina.page.url
    nina.enter_password(accounts.PASSWORD)
    assert "/login/" in nina.page.url
