"""The management commands on API keys and the policy signer."""

import json

import pytest
from django.core.management import CommandError, call_command

from foundation.kernel.errors import InvalidApiKey
from policy.api_keys import is_well_formed, new_key
from policy.models import ApiKey, SignerSwitch
from tests.support.answers import INSTANT
from tests.support.callers import find_valid_key


@pytest.fixture
def run(db, capsys):
    """Run a command as from a shell; return what its last line says."""

    def call(*arguments):
        call_command(*arguments)
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return call


def test_create_api_key_prints_the_key_this_once(run):
    printed = run("create_api_key", "--name", "laptop")

    assert list(printed) == ["id", "apiKey", "name", "agentId", "scopes", "expiresAt"]
    assert is_well_formed(printed["apiKey"])
    assert find_valid_key(printed["apiKey"]).key_id == printed["id"]
    assert (printed["name"], printed["agentId"], printed["expiresAt"]) == ("laptop", None, None)
    assert set(printed["scopes"]) == {"payments", "budgets", "services", "logs"}


def test_create_api_key_binds_limits_and_dates_a_key(run, agent):
    printed = run(
        "create_api_key",
        "--agent",
        agent.id,
        "--scope",
        "payments",
        "logs",
        "--scope",
        "services",
        "--expires-in",
        "60",
    )

    record = ApiKey.objects.get(pk=printed["id"])
    assert (printed["agentId"], record.agent_id) == (agent.id, agent.id)
    assert set(printed["scopes"]) == {"payments", "logs", "services"}
    assert INSTANT.fullmatch(printed["expiresAt"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["--agent", "nobody"],
        ["--scope", "everything"],
        ["--expires-in", "soon"],
        ["--expires-in", "0"],
        ["--expires-in", "1" + "0" * 30],
    ],
)
def test_create_api_key_refuses_what_makes_no_sense(run, arguments):
    before = ApiKey.objects.count()

    with pytest.raises(CommandError):
        run("create_api_key", *arguments)

    assert ApiKey.objects.count() == before


def test_revoke_api_key_revokes_by_id_or_by_the_key_itself(run):
    first, second = run("create_api_key"), run("create_api_key")

    assert run("revoke_api_key", first["id"])["id"] == first["id"]
    assert INSTANT.fullmatch(run("revoke_api_key", second["apiKey"])["revokedAt"])
    for made in (first, second):
        with pytest.raises(InvalidApiKey):
            find_valid_key(made["apiKey"])


def test_revoke_api_key_refuses_a_key_that_does_not_exist(run):
    with pytest.raises(CommandError, match="no such API key"):
        run("revoke_api_key", new_key())


def test_create_api_key_limits_a_key_to_its_own_payees(run):
    printed = run("create_api_key", "--scope", "services", "--own-payees")

    assert printed["ownPayeesOnly"] is True
    assert ApiKey.objects.get(pk=printed["id"]).registers_as == printed["id"]
    with pytest.raises(CommandError, match="registers no payees"):
        run("create_api_key", "--scope", "payments", "--own-payees")


def test_create_api_key_takes_address_ranges(run):
    printed = run("create_api_key", "--allow-from", "203.0.113.0/24", "2001:db8::/32")

    assert printed["allowFrom"] == ["2001:db8::/32", "203.0.113.0/24"]
    with pytest.raises(InvalidApiKey):
        find_valid_key(printed["apiKey"])


def test_rotate_api_key_prints_the_new_key_and_until_when_the_old_one_works(run):
    old = run("create_api_key", "--name", "laptop")

    printed = run("rotate_api_key", old["id"], "--reason", "Once a year.")

    assert list(printed) == ["id", "apiKey", "expiresAt", "replaces", "replacedEndsAt"]
    assert (printed["replaces"], printed["expiresAt"]) == (old["id"], None)
    assert INSTANT.fullmatch(printed["replacedEndsAt"])
    for key in (old["apiKey"], printed["apiKey"]):
        find_valid_key(key)


def test_rotate_api_key_refuses_a_key_that_does_not_exist(run):
    with pytest.raises(CommandError, match="no such API key"):
        run("rotate_api_key", new_key())


def test_signing_is_stopped_and_started(run):
    assert run("stop_signing") == {"signing": False}
    assert SignerSwitch.objects.get().is_signing is False
    assert run("start_signing") == {"signing": True}
    assert SignerSwitch.objects.get().is_signing is True
