"""Each step of an action is a page of its own: going back to it or reloading it sends nothing, nor does anything."""

import re
from decimal import Decimal
from html import unescape

import pytest

from policy.models import Agent, ApiKey
from policy.operations import pause_agent
from services.models import Service
from tests.foundation.console.conftest import errors_in, sealed_in
from tests.support.factories import make_agent, make_service, new_name
from tests.support.reconciliations import make_agent_with_surplus
from tests.support.steps import follow_step

AGENTS = "/console/policy/agent/"
PAUSE = {"action": "pause", "index": "0"}


def send(person, address, **data):
    """Send a form and do not follow where it leads."""
    return person.client.post(address, data)


def value_in(page, name):
    found = re.search(rf'name="{name}"[^>]*value="([^"]*)"', page.content.decode())
    return unescape(found[1]) if found else None


def test_what_is_sent_leads_to_a_page_that_can_be_loaded_again_and_again(finance):
    agent = make_agent()

    step = send(finance, AGENTS, **PAUSE, _selected_action=agent.id)

    assert step.status_code == 302
    assert re.fullmatch(rf"{AGENTS}\?step=[0-9a-f]{{32}}", step["Location"])
    for _ in range(2):
        page = finance.client.get(step["Location"])
        assert page.status_code == 200
        assert "Pause" in page.content.decode()
    assert Agent.objects.get(pk=agent.pk).status == "active"


def test_every_step_of_an_action_can_be_gone_back_to_until_it_was_sent(finance):
    agent, reason = make_agent_with_surplus(), "An invoice was paid twice"
    first = send(finance, AGENTS, action="adjust", index="0", _selected_action=agent.id, from_page=agent.id)["Location"]
    asked = {"action": "adjust", "_selected_action": agent.id, "from_page": agent.id}
    second = send(finance, first, **asked, amount="-2.50", chain="eip155:31337")["Location"]
    page = finance.client.get(second)
    assert "1,000.00 USDC" in page.content.decode()

    assert value_in(finance.client.get(first), "amount") is None
    done = send(finance, second, **asked, reason=reason, sealed=sealed_in(page))
    assert done["Location"] == f"{AGENTS}{agent.id}/change/"
    assert Agent.objects.get(pk=agent.pk).balance == agent.balance - Decimal("2.5")

    again = finance.client.get(second, follow=True)
    assert again.redirect_chain == [(AGENTS, 302)]
    assert "Nothing was done now" in again.content.decode()
    assert finance.client.get(first).status_code == 200


def test_what_was_filled_in_wrong_stands_in_the_form_with_what_is_wrong(finance):
    agent = make_agent()
    first = send(finance, AGENTS, action="adjust", index="0", _selected_action=agent.id)["Location"]

    wrong = send(finance, first, action="adjust", _selected_action=agent.id, amount="2,50", chain="eip155:31337")
    page = finance.client.get(wrong["Location"])

    assert value_in(page, "amount") == "2,50"
    assert errors_in(page) == ["A comma can be read in two ways. Write 2.50, or 1250."]


def test_what_an_operation_says_against_it_is_shown_on_the_page_too(make_person):
    operator = make_person(group="Operations")
    form = {"name": "laptop", "scopes": "logs", "agent": "nobody", "days": "1", "reason": "A test"}

    page = operator.client.get(send(operator, "/console/policy/apikey/add/", **form)["Location"])

    assert "There is no agent nobody" in page.content.decode()
    assert value_in(page, "name") == "laptop"
    assert not ApiKey.objects.filter(name="laptop").exists()


def test_no_address_holds_what_was_typed(finance):
    agent, reason = make_agent(), "Very secret"
    pause_agent(agent.id, by="test")

    step = send(finance, AGENTS, action="resume", index="0", _selected_action=agent.id, reason=" ", amount=reason)

    assert re.fullmatch(rf"{AGENTS}\?step=[0-9a-f]{{32}}", step["Location"])


def test_a_page_is_shown_to_nobody_else_and_in_no_other_session(finance, make_person):
    agent = make_agent()
    step = send(finance, AGENTS, **PAUSE, _selected_action=agent.id, reason="")["Location"]
    colleague, elsewhere = make_person(group="Finance"), make_person(group="Finance")

    for other in (colleague, elsewhere):
        answer = other.client.get(step)
        assert (answer.status_code, answer["Location"]) == (302, AGENTS)
    assert finance.client.get(step).status_code == 200


def test_a_page_that_names_an_action_which_somebody_may_not_do_any_more_is_refused(finance):
    from django.contrib.auth.models import User  # noqa: PLC0415 - the settings come first

    step = send(finance, AGENTS, **PAUSE, _selected_action=make_agent().id)["Location"]
    User.objects.get(username=finance.name).groups.clear()

    assert finance.client.get(step).status_code == 403


def test_after_an_action_the_list_is_still_filtered(finance):
    waiting, other = make_service(approved=False), make_service(approved=False)
    filtered = f"/console/services/service/?status__exact=pending_approval&q={waiting.id[:12]}"

    step = send(finance, filtered, action="reject", index="0", _selected_action=waiting.id)["Location"]
    assert step.startswith(filtered)
    page = finance.client.get(step).content.decode()
    assert f'<a class="button" href="{filtered.replace("&", "&amp;")}">Back</a>' in page
    shown = f"{waiting.registration} {waiting.id}"
    done = send(finance, step, action="reject", _selected_action=waiting.id, shown=shown, reason="Unknown")

    assert done["Location"] == filtered
    assert Service.objects.get(pk=waiting.pk).status == "rejected"
    assert Service.objects.get(pk=other.pk).status == "pending_approval"


def test_an_agent_is_made_page_by_page_and_each_can_be_loaded_again(finance):
    agent_id = new_name("agent-x")
    form = {"id": agent_id, "asset": "USDC", "max_per_payment": "2", "daily_limit": "1", "weekly_limit": "9",
            "allows": "all", "reason": "A test"}  # fmt: skip
    first = send(finance, f"{AGENTS}add/", **form)["Location"]
    for _ in range(2):
        page = finance.client.get(first)
        assert "Nothing is made yet" in page.content.decode()
    assert not Agent.objects.filter(pk=agent_id).exists()

    back = send(finance, first, **form, again="1")["Location"]
    assert value_in(finance.client.get(back), "max_per_payment") == "2"
    done = send(finance, first, **form, make="1", seen=value_in(page, "seen"))

    assert done["Location"] == f"{AGENTS}{agent_id}/fund/"
    assert "Nothing is made yet" not in finance.client.get(first).content.decode()


def test_a_session_keeps_no_more_than_a_page_of_each_question(finance):
    agent = make_agent()

    for number in range(30):
        sent = {"_selected_action": agent.id, "reason": "", "note": f"{number}" * 4_000}
        newest = send(finance, AGENTS, **PAUSE, **sent)["Location"]
        assert send(finance, AGENTS, **PAUSE, **sent)["Location"] == newest

    kept = finance.client.session["kept"]
    assert 2 <= len(kept) <= 12
    assert len(str(kept)) < 150_000
    assert follow_step(finance.client, send(finance, AGENTS, **PAUSE, **sent)).status_code == 200


@pytest.mark.parametrize("step", ["0" * 32, "x", "%00", ""])
def test_an_address_that_names_nothing_kept_shows_the_list(finance, step):
    answer = finance.client.get(f"{AGENTS}?status__exact=active&step={step}", follow=True)

    assert answer.status_code == (400 if step == "%00" else 200)
