"""The management commands on agents, their policies and their allowances."""

import json

import pytest
from django.core.management import CommandError, call_command

from policy.models import Agent, PolicyRevision
from tests.support.factories import new_name

LIMITS = ["--max-per-payment", "10", "--daily-limit", "50", "--weekly-limit", "100"]


@pytest.fixture
def run(db, capsys):
    """Run a command as from a shell; return what its last line says."""

    def call(*arguments):
        call_command(*arguments)
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return call


@pytest.mark.parametrize(
    "command",
    [
        "create_agent", "set_policy", "fund_agent", "pause_agent", "resume_agent", "approve_service", "reject_service",
        "disable_service", "create_api_key", "revoke_api_key", "stop_signing", "start_signing", "verify_receipt",
    ],
)  # fmt: skip
def test_a_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as end:
        call_command(command, "--help")

    assert end.value.code == 0
    assert "usage:" in capsys.readouterr().out


def test_create_agent_makes_an_agent_and_prints_its_budget(run):
    name = new_name("agent")

    printed = run("create_agent", name, "--asset", "EURC", *LIMITS)

    assert printed == {
        "agentId": name, "status": "active", "asset": "EURC", "balance": "0.00", "spentToday": "0.00",
        "spentThisWeek": "0.00", "dailyLimit": "50.00", "weeklyLimit": "100.00", "maxPerPayment": "10.00",
        "policyRevision": "polrev_1",
    }  # fmt: skip
    assert PolicyRevision.objects.get(agent_id=name).allowed_services is None


def test_create_agent_names_services(run):
    name = new_name("agent")

    run("create_agent", name, "--asset", "USDC", *LIMITS, "--service", "b", "a", "--service", "c")

    assert PolicyRevision.objects.get(agent_id=name).allowed_services == ["a", "b", "c"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--asset", "USDC"],
        ["--asset", "BTC", *LIMITS],
        ["--asset", "usdc", *LIMITS],
        LIMITS,
        ["--asset", "USDC", *LIMITS[:4]],
        ["--asset", "USDC", *LIMITS, "--max-per-payment", "1e3"],
        ["--asset", "USDC", *LIMITS, "--daily-limit=-1"],
        ["--asset", "USDC", *LIMITS, "--weekly-limit", "0.0000001"],
        ["--asset", "USDC", *LIMITS, "--fund", "x"],
    ],
)
def test_create_agent_refuses_what_is_not_a_policy_and_leaves_nothing(run, arguments):
    name = new_name("agent")

    with pytest.raises(CommandError):
        run("create_agent", name, *arguments)

    assert not Agent.objects.filter(pk=name).exists()


def test_create_agent_refuses_an_id_that_is_taken(run, agent):
    with pytest.raises(CommandError, match="already"):
        run("create_agent", agent.id, "--asset", "USDC", *LIMITS)


def test_set_policy_changes_what_it_names_and_keeps_the_rest(run, agent):
    printed = run("set_policy", agent.id, "--daily-limit", "20", "--service", "b", "a")

    assert (printed["dailyLimit"], printed["weeklyLimit"], printed["policyRevision"]) == ("20.00", "100.00", "polrev_2")
    assert PolicyRevision.objects.get(agent=agent, number=2).allowed_services == ["a", "b"]
    assert run("set_policy", agent.id, "--max-per-payment", "0")["maxPerPayment"] == "0.00"
    assert PolicyRevision.objects.get(agent=agent, number=3).allowed_services == ["a", "b"]
    assert run("set_policy", agent.id, "--all-services")["policyRevision"] == "polrev_4"
    assert PolicyRevision.objects.get(agent=agent, number=4).allowed_services is None


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--daily-limit", "x"],
        ["--daily-limit=-1"],
        ["--service", "a", "--all-services"],
        ["--weekly-limit", "0.1234567"],
    ],
)
def test_set_policy_refuses_what_is_not_a_change(run, agent, arguments):
    with pytest.raises(CommandError):
        run("set_policy", agent.id, *arguments)

    assert PolicyRevision.objects.filter(agent=agent).count() == 1


def test_pause_and_resume_print_the_status(run, agent):
    assert run("pause_agent", agent.id)["status"] == "paused"
    assert run("pause_agent", agent.id)["status"] == "paused"
    assert run("resume_agent", agent.id)["status"] == "active"


@pytest.mark.parametrize(
    "arguments",
    [
        ["set_policy", "nobody", "--daily-limit", "1"],
        ["fund_agent", "nobody", "1"],
        ["pause_agent", "nobody"],
        ["resume_agent", "nobody"],
    ],
)
def test_an_agent_that_does_not_exist_is_refused_in_a_sentence(run, arguments):
    with pytest.raises(CommandError, match=r"There is no agent nobody\."):
        run(*arguments)
