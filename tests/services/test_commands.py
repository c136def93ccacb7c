"""The management commands on services."""

import json

import pytest
from django.core.management import CommandError, call_command

from tests.support.factories import make_service


@pytest.fixture
def run(db, capsys):
    """Run a command as from a shell; return what its last line says."""

    def call(*arguments):
        call_command(*arguments)
        return json.loads(capsys.readouterr().out.splitlines()[-1])

    return call


def test_a_service_is_approved_disabled_and_approved_again(run):
    service = make_service(approved=False)

    for command, status in (
        ("approve_service", "approved"),
        ("disable_service", "disabled"),
        ("approve_service", "approved"),
    ):
        printed = run(command, service.id)

        assert list(printed) == ["id", "name", "recipient", "asset", "status", "createdAt"]
        assert (printed["id"], printed["status"]) == (service.id, status)


def test_a_service_is_rejected(run):
    assert run("reject_service", make_service(approved=False).id)["status"] == "rejected"


@pytest.mark.parametrize("command", ["approve_service", "reject_service", "disable_service"])
def test_a_service_that_does_not_exist_is_refused_in_a_sentence(run, command):
    with pytest.raises(CommandError, match=r"There is no service nobody\."):
        run(command, "nobody")


@pytest.mark.parametrize(
    ("command", "is_approved"), [("approve_service", True), ("reject_service", True), ("disable_service", False)]
)
def test_a_step_that_the_state_does_not_allow_is_refused(run, command, is_approved):
    service = make_service(approved=is_approved)

    with pytest.raises(CommandError, match=service.id):
        run(command, service.id)


def test_a_service_on_a_chain_that_is_not_served_is_not_approved(run):
    service = make_service(recipient="base:0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", approved=False)

    with pytest.raises(CommandError, match="not serve"):
        run("approve_service", service.id)
