"""What operators do by commands and staff by actions of the console, they do on several servers as on one."""

import gzip
import json
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from foundation import groups
from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement
from payments.models import Relayer
from payments.settling.relayer_queue import read_relayer_queues
from payments.settling.relayers import find_rotation
from policy.agent_ids import check_is_distinct
from policy.limits import Limits
from policy.models import Agent, PolicyTemplate
from policy.proposals import propose_agent
from policy.template_operations import follow_template
from policy.template_proposals import propose_template
from services.models import DeliveryState, Service, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from services.served_chains import served_chains
from staff.models import AuditEntry
from staff.second_person import Proposal, confirm, propose
from tests.distributed.storming import agent_in_each_group
from tests.staff import scenes
from tests.staff.people import make_user
from tests.support.commands import run
from tests.support.factories import decide, make_agent, make_service, new_name
from tests.support.local_ids import LOCALNET, SOLANA_LOCALNET
from tests.support.sign_in import Browser
from tests.support.sign_in import make_user as make_member
from tests.support.webhook_rows import make_attempt, make_delivery

pytestmark = pytest.mark.long(60)
ENDPOINTS, MOVEMENTS = "/console/services/webhookendpoint/", "/console/ledger/balancemovement/"
OLD = timedelta(days=100)


# --- Commands ---------------------------------------------------------------------------------------------------------
def test_an_agent_is_made_by_a_command():
    name = new_name("agent")

    run(
        "create_agent",
        name,
        *["--asset", "USDC", "--max-per-payment", "1", "--daily-limit", "2", "--weekly-limit", "3"],
    )

    with groups.within_group_of(name):
        assert Agent.objects.get(pk=name).policy_revision == 1


def test_agents_of_a_file_are_made_each_with_the_root_of_its_tree(tmp_path):
    names = [new_name("agent") for _ in range(12)]
    above = {names[1]: names[0], names[2]: names[1], names[4]: names[3]}
    lines = [f"{name},USDC,1,2,3,{above.get(name, '')}" for name in names]
    file, keys = tmp_path / "agents.csv", tmp_path / "keys.csv"
    file.write_text("\n".join(["id,asset,max_per_payment,daily_limit,weekly_limit,parent", *lines]))

    told, error = run("create_agent", "--from", str(file), "--keys", str(keys))

    assert error is None, error
    assert json.loads(told[-1])["created"] == len(names)
    assert len(keys.read_text().splitlines()) == 1 + len(names)
    group_of = {name: groups.group_of(name) for name in names}
    assert len(set(group_of.values())) > 1
    assert all(group_of[name] == group_of[parent] for name, parent in above.items())
    for name in names:
        with groups.within_group_of(name):
            assert Agent.objects.get(pk=name).policy_revision == 1


@pytest.mark.parametrize("chain", [LOCALNET, SOLANA_LOCALNET])
def test_a_relayer_is_switched_off_and_on_in_each_group_that_has_it(house, chain):
    adapter = served_chains()[chain]
    before = find_rotation(chain, adapter)
    name = before[0]

    run("relayers", "--chain", chain, "--disable", name)
    states = groups.read_of(None, Relayer.objects.filter(address=name).values_list("is_enabled", flat=True).all)
    assert set(states) == {False}
    assert find_rotation(chain, adapter) == before[1:]

    run("relayers", "--chain", chain, "--enable", name)
    assert find_rotation(chain, adapter) == before
    queues = [queue.relayer.address for queue in read_relayer_queues(chain, adapter)]
    assert len(queues) == len(set(queues))


def test_what_is_old_is_archived_from_all_groups(tmp_path):
    service = make_service(webhook_url="https://hooks.example.com/")
    made = groups.read_of(None, lambda: [make_old(service)])
    seen, error = run("archive", "--to", str(tmp_path / "archive"), "--older-than", "60", "--dry-run")
    assert error is None, error
    assert json.loads(seen[-1])["rows"]["deliveries"] == len(made)

    told, error = run("archive", "--to", str(tmp_path / "archive"), "--older-than", "60")

    assert error is None, error
    assert json.loads(told[-1])["removed"]["deliveries"] == len(made)
    assert sorted(row["event"]["id"] for row in archived(tmp_path / "archive")) == sorted(made)
    for model in (WebhookDelivery, WebhookAttempt):
        assert groups.read_of(None, model.objects.filter(endpoint_id=service.pk).values_list("pk").all) == []


def make_old(service: Service) -> str:
    """Make a delivery that was over long ago, in this group; returns the id of its event."""
    disable(service)  # nobody takes the delivery meanwhile
    endpoint = WebhookEndpoint.objects.select_related("service").get(pk=service.pk)
    delivery = make_delivery(endpoint, at=utc_now() - OLD, state=DeliveryState.DELIVERED, attempts=1)
    make_attempt(delivery, started_at=utc_now() - OLD)
    return str(delivery.pk)


def archived(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("deliveries-*.jsonl.gz"))
    return [json.loads(line)["row"] for file in files for line in gzip.open(file, "rt", encoding="utf-8")]


# --- Changes that are of no agent -------------------------------------------------------------------------------------
def test_an_outflow_is_booked_as_a_loss_by_two_people(settings):
    settings.FOUR_EYES = True
    arguments = {**scenes.SCENES["outflow.book"](), "agent": None}
    ann, bea = make_user(is_superuser=True), make_user(is_superuser=True)

    request = propose(Proposal("outflow.book", "outflow", "it", arguments, [], "Ticket 7"), by=ann).request
    assert request is not None
    confirm(request.pk, by=bea)

    assert AuditEntry.objects.filter(action="outflow.booked", author=ann.username).exists()


def test_a_template_that_nobody_follows_is_changed_and_is_not_changed_for_those_who_came_meanwhile(settings):
    settings.FOUR_EYES = False
    ann, template = make_user(is_superuser=True), scenes.a_template()

    propose_template(template, [], Limits(Decimal(1), Decimal(2), Decimal(4)), shown=[], reason="R", by=ann)

    changed = PolicyTemplate.objects.get(pk=template.pk)
    assert changed.version == 2
    follow_template(make_agent().pk, template.pk, by="eve")
    with pytest.raises(OperationRefused, match="Other agents follow"):
        propose_template(changed, [], Limits(Decimal(1), Decimal(2), Decimal(5)), shown=[], reason="R", by=ann)


def test_an_agent_of_one_group_is_not_taken_for_one_of_another(settings):
    settings.FOUR_EYES = False
    ann, known = make_user(is_superuser=True), make_agent().pk
    others = (f"{known.upper()}{'-' * n}" for n in range(1, 60))
    elsewhere = next(one for one in others if groups.group_of(one) != groups.group_of(known))

    with pytest.raises(OperationRefused, match="people take for"):
        propose_agent(elsewhere, Asset.USDC, Limits(Decimal(1), Decimal(2), Decimal(3)), shown=[], reason="R", by=ann)
    with groups.within_group_of(elsewhere), pytest.raises(OperationRefused):
        check_is_distinct(elsewhere)


# --- Actions and lists of the console ---------------------------------------------------------------------------------
@pytest.fixture
def browser() -> Browser:
    return Browser().sign_in(make_member("Finance"))


def act(browser: Browser, action: str, chosen: Sequence[str], **answers: str) -> Any:
    form = {"action": action, "index": "0", "_selected_action": [*chosen], **answers}
    return browser.client.post(ENDPOINTS, form, follow=True)


def test_staff_act_on_the_endpoint_of_a_payee_which_all_groups_have(browser):
    service = make_service(webhook_url="https://hooks.example.com/")
    groups.in_each_group(lambda: disable(service))
    for action, answers, says in (
        ("enable", {}, "Enabled"),
        ("send_test", {}, "Sent a test event to"),
        ("replay", {}, "Events keep their ids"),
        ("replay", {"since": "2026-11-01T00:00", "is_meant": "True"}, "Events"),
        ("show_secret", {}, "Anyone with this secret"),
        ("show_secret", {"is_meant": "True"}, "whsec_"),
        ("rotate", {}, "For 24 hours"),
        ("rotate", {"is_meant": "True"}, "Rotated the signing secret of"),
    ):
        answer = act(browser, action, [service.pk], **answers)
        assert answer.status_code == 200, (action, answers, answer.content)
        assert says in answer.content.decode(), (action, answers)


def disable(service: Service) -> None:
    WebhookEndpoint.objects.get_or_create(id=service.pk)
    WebhookEndpoint.objects.filter(pk=service.pk).update(disabled_at=utc_now(), disabled_reason="A test")


def test_movements_are_found_by_their_date_and_newest_first_in_a_quiet_group_too(browser):
    service, agents = make_service(), agent_in_each_group()
    busy, quiet = [*agents.values()][:2]
    for agent, count in ((quiet, 1), (busy, 3), (quiet, 1)):
        with groups.within_group_of(agent.pk):
            for _ in range(count):
                decide(agent, service, "1")
    made = {one.pk for agent in (busy, quiet) for one in movements_of(agent)}

    page = browser.client.get(f"{MOVEMENTS}?since={utc_now():%Y-%m-%d}")

    listed = page.context["cl"].result_list
    assert made <= {one.pk for one in listed}
    moments = [one.created_at for one in listed]
    assert moments == sorted(moments, reverse=True)


def movements_of(agent: Agent) -> list[BalanceMovement]:
    with groups.within_group_of(agent.pk):
        return list(BalanceMovement.objects.filter(agent=agent))
