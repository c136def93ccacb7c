"""The management commands on services."""

import json

import pytest
from django.core.management import CommandError, call_command

from staff.models import AuditEntry
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


def test_a_rejected_service_is_taken_up_again_with_a_reason(run):
    service = make_service(approved=False)
    run("reject_service", service.id, "--reason", "Who is this?")

    with pytest.raises(CommandError, match="--reason"):
        run("reopen_service", service.id)
    printed = run("reopen_service", service.id, "--reason", "They called")

    assert (printed["id"], printed["status"]) == (service.id, "pending_approval")


def test_a_commands_decision_is_audited_with_its_reason(run):
    service = make_service(approved=False)

    run("approve_service", service.id, "--reason", "Contract 7")
    run("disable_service", service.id)

    entries = AuditEntry.objects.filter(subject_type="service", subject=service.id).order_by("id")
    assert [(entry.action, entry.author, entry.reason) for entry in entries][1:] == [
        ("service.approved", "command line", "Contract 7"),
        ("service.disabled", "command line", ""),
    ]


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
