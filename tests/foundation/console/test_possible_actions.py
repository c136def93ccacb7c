"""The page of a row has buttons for what the row's state admits, and no others."""

import re

import pytest

from backoffice.models import Alarm
from foundation.kernel.times import utc_now
from payments.models import ChainState
from policy.key_operations import revoke_api_key, rotate_api_key
from policy.models import ApiKey
from policy.operations import pause_agent
from tests.support.factories import make_agent, make_api_key, new_name
from tests.support.sign_in import make_user


def buttons(person, model, key):
    """Read the actions that the page of a row offers."""
    page = person.get(f"{model}_change", str(key))
    return re.findall(r'name="action" value="([^"]*)"', page.content.decode())


def test_an_active_agent_can_be_paused_and_a_paused_one_resumed(finance):
    agent = make_agent()
    assert buttons(finance, "policy_agent", agent.pk) == ["pause", "adjust", "withdraw", "set_webhook"]

    pause_agent(agent.pk, by="kim")
    assert buttons(finance, "policy_agent", agent.pk) == ["resume", "adjust", "withdraw", "set_webhook", "archive"]


def test_a_chain_that_signs_can_be_stopped_and_a_stopped_one_started(finance):
    state = ChainState.objects.create(chain=new_name("chain"), state={}, observed_at=utc_now(), checked_at=utc_now())
    assert buttons(finance, "payments_chainstate", state.pk) == ["stop_signing"]

    ChainState.objects.filter(pk=state.pk).update(stopped_at=utc_now(), stopped_reason="R")
    assert buttons(finance, "payments_chainstate", state.pk) == ["start_signing"]


def test_a_key_that_was_replaced_is_not_rotated_again_and_one_that_is_revoked_is_over(make_person):
    operations = make_person(group="Operations")
    make_api_key()
    key = ApiKey.objects.latest("created_at")
    assert buttons(operations, "policy_apikey", key.pk) == ["rotate", "revoke"]

    rotate_api_key(key.pk, by="kim")
    assert buttons(operations, "policy_apikey", key.pk) == ["revoke"]
    revoke_api_key(key.pk, by="kim")
    assert buttons(operations, "policy_apikey", key.pk) == []


def test_an_active_account_can_be_deactivated_and_a_deactivated_one_activated(make_person):
    administrator, user = make_person(group="Administrator"), make_user("Finance")
    assert "deactivate" in buttons(administrator, "auth_user", user.pk)
    assert "activate" not in buttons(administrator, "auth_user", user.pk)

    user.is_active = False
    user.save()
    assert "activate" in buttons(administrator, "auth_user", user.pk)
    assert "deactivate" not in buttons(administrator, "auth_user", user.pk)


@pytest.mark.parametrize(
    ("fields", "possible"),
    [({}, ["acknowledge"]), ({"acknowledged_by": "kim"}, []), ({"cleared_at": "2026-11-23T00:00Z"}, [])],
)
def test_an_open_alarm_can_be_acknowledged_once(finance, fields, possible):
    alarm = Alarm.objects.create(
        kind="pools", subject=new_name("pool"), sentence="S", severity="error", permission="payments.view_payment",
        url="/console/", found_by="f", raised_at=utc_now(), **fields,
    )  # fmt: skip

    assert buttons(finance, "backoffice_alarm", alarm.pk) == possible


def test_an_action_that_is_not_offered_is_refused(finance):
    agent = make_agent()

    assert finance.try_to_act("policy_agent", "delete_selected", agent.pk).status_code == 403
    assert "No action selected" in "".join(finance.act("policy_agent", "", agent.pk))
