"""What people who only look are shown: nothing that they cannot do, hints where a list is empty, ways onward."""

import re
from html import unescape

import pytest
from django.contrib.admin.utils import quote

from foundation.kernel.assets import Asset
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement
from payments.models import Leg, Outflow
from services.models import Service
from services.operations import Registration, register_service
from tests.support.deposits import make_deposit_aside
from tests.support.factories import decide, make_agent, make_service, new_address, new_name
from tests.support.one_of_everything import make_one_of_everything
from tests.support.scenes import Scene
from tests.support.together import pay_together


def make_outflow(chain: str = "eip155:31337") -> None:
    Outflow.objects.create(
        chain=chain, tx=new_name("tx"), log_index=0, block_number=1, asset="USDC", amount=1, why="R", found_at=utc_now()
    )


def buttons_of_home(person):
    """Read each line of the work queue and its button."""
    page = person.get("index").content.decode()
    lines = re.findall(r'<li class="notice[^>]*>\s*<span><bdi>(.*?)</bdi>.*?class="button">(.*?)</a>', page, re.DOTALL)
    return dict(lines)


def test_home_offers_an_auditor_to_look_and_finance_to_act(auditor, finance):
    make_service(approved=False)
    make_deposit_aside()
    make_outflow()

    assert {"Review", "Credit", "Book"} <= set(buttons_of_home(finance).values())
    seen = buttons_of_home(auditor)
    assert seen.keys() == buttons_of_home(finance).keys()
    assert not {"Review", "Credit", "Book"} & set(seen.values())
    assert "Look" in seen.values()


def test_an_auditor_is_told_how_an_agent_is_funded_and_finance_to_fund_it(auditor, finance):
    agent = make_agent()

    assert ">How it is funded</a>" in auditor.get("policy_agent_change", agent.id).content.decode()
    assert '<a class="button primary"' in finance.get("policy_agent_change", agent.id).content.decode()
    assert '<a class="button primary"' not in auditor.get("policy_agent_change", agent.id).content.decode()


@pytest.mark.parametrize("model", ["policy_agent", "services_service", "payments_payment", "backoffice_alarm"])
def test_the_page_of_what_is_not_there_is_not_found(auditor, model):
    answer = auditor.get(f"{model}_change", "nope")

    assert answer.status_code == 404
    assert "request <code" in answer.content.decode()


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ({"since": "2026-11-23", "until": "2026-11-22"}, "The first day, 2026-11-23, is after the last one,"),
        ({"since": "23.11.2026"}, "Write days like 2026-11-23."),
        ({"since": "2026-11-22", "until": "2026-11-22"}, ""),
    ],
)
def test_a_list_says_why_days_show_nothing(auditor, query, hint):
    page = auditor.get("payments_payment_changelist", **query).content.decode()

    assert hint in page
    assert bool(hint) is ('class="notice warning"' in page)


def test_sums_name_chains_as_people_do(auditor):
    make_outflow("eip155:8453")

    page = auditor.get("payments_outflow_changelist", asset="USDC").content.decode()

    sums = page.partition("Sums of what is filtered")[2].partition("</table>")[0]
    assert "<td>base</td>" in sums
    assert "eip155" not in sums


def test_rows_lead_to_the_payments_agents_and_payees_that_they_name(auditor):
    entry = make_one_of_everything()
    payment = f'<a href="/console/payments/payment/{quote(str(entry.payment_id))}/change/">'
    agent = f'<a href="/console/policy/agent/{entry.agent_id}/change/">'

    for page in (auditor.get("ledger_balancemovement_changelist"), auditor.get("payments_settlement_changelist"),
                 auditor.get("policy_agent_change", entry.agent_id)):  # fmt: skip
        assert payment in page.content.decode()
    for model in ("payments_payment", "ledger_logentry", "ledger_balancemovement"):
        assert agent in auditor.get(f"{model}_changelist").content.decode()
    assert f"/console/services/service/{entry.service}/" in auditor.get("payments_payment_changelist").content.decode()
    assert BalanceMovement.objects.filter(payment_id=entry.payment_id).exists()


def test_a_transaction_leads_to_all_of_its_payments_with_their_shares_and_what_it_went_without(auditor):
    payments = pay_together(Scene())
    Leg.objects.filter(payment=payments[1]).update(is_live=False, skipped="Its payee is blocked.")
    Leg.objects.filter(payment=payments[2]).update(cost="0.000042")

    page = auditor.get("payments_settlement_change", Leg.objects.get(payment=payments[0]).settlement_id)

    listed = page.content.decode().partition("Payments that it carries")[2].partition("</table>")[0]
    for one in payments:
        assert f'<a href="/console/payments/payment/{quote(one.pk)}/change/">' in listed
    assert listed.count("Its payee is blocked.") == 1
    assert "0.000042" in listed


@pytest.mark.parametrize(("model", "heading"), [("payments_payment", "amount"), ("policy_agent", "balance")])
def test_a_click_on_a_heading_sorts_and_another_one_turns_it_round(auditor, model, heading):
    agent, service = make_agent(balance="50"), make_service()
    for amount in ("2", "1", "3"):
        decide(agent, service, amount)
    make_agent(balance="70")
    address = f"/console/{model.replace('_', '/')}/"

    for is_turned in (False, True):
        page = auditor.client.get(address)
        (link,) = re.findall(rf'<a href="([^"]*)">{heading.capitalize()}</a>', page.content.decode())
        address = f"/console/{model.replace('_', '/')}/{unescape(link)}"
        values = [getattr(row, heading) for row in auditor.client.get(address).context["cl"].result_list]
        assert values == sorted(values, reverse=is_turned)
        assert len(set(values)) > 1


def test_from_a_payee_one_goes_on_to_the_next_that_waits_the_risky_ones_first(finance, auditor):
    Service.objects.filter(status="pending_approval").update(status="rejected", waiting_since=None)
    known = make_service()
    oldest, newest = make_service(approved=False), make_service(approved=False)
    like = f"{known.address[:6]}{new_address()[6:-4]}{known.address[-4:]}".lower()
    risky = new_name("risky")
    register_service(Registration(risky, "A payee", f"evm-localnet:{like}", Asset.USDC))

    def next_of(person, service_id):
        page = person.get("services_service_change", service_id).content.decode()
        return re.findall(r"Next that waits: ([^<]*)<", page)

    assert next_of(finance, newest.id) == next_of(finance, oldest.id) == [risky]
    assert next_of(finance, risky) == [oldest.id]
    assert next_of(auditor, oldest.id) == []


def test_the_audit_is_among_what_one_works_with_every_day(auditor):
    page = auditor.get("index").content.decode()

    work = page.partition("<h2>Work</h2>")[2].partition("</ul>")[0]
    assert "/console/staff/auditentry/" in work
    assert page.count('href="/console/staff/auditentry/"') == 1


def test_no_two_parts_of_a_page_have_the_same_name(auditor):
    make_agent()
    page = auditor.get("policy_agent_changelist").content.decode()

    searches = re.findall(r'<form[^>]*role="search"[^>]*aria-label="([^"]*)"', page)
    assert len(searches) == len(set(searches)) == page.count('role="search"') == 2


def test_how_long_money_lasts_is_called_so(auditor):
    agent = make_agent()
    for page in (auditor.get("policy_agent_change", agent.id), auditor.get("policy_agent_fund", agent.id)):
        assert re.search(r"[Rr]unway: no spend lately", page.content.decode())
