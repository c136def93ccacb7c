"""Console and shell make the same change: each kind, by both doors, leaves the same rows."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError
from django.db import transaction

from foundation.commands import AUTHOR
from foundation.kernel.errors import OperationRefused
from staff.commands import read_arguments
from staff.kinds import _kinds, kinds_of_a_shell
from staff.second_person import Proposal, confirm, propose
from tests.staff.changed_rows import changed, read_rows
from tests.staff.people import make_user
from tests.staff.scenes import SCENES, change, words_of
from tests.support.commands import run

# Who is independent of whom is known of people who have signed in, not of who runs a command.
OF_THE_CONSOLE = {"staff.change", "staff.link"}


@pytest.fixture
def ann(db: None) -> User:
    return make_user(is_superuser=True)


@pytest.fixture
def bea(db: None) -> User:
    return make_user(is_superuser=True)


@pytest.fixture(params=sorted(_kinds.keys() - OF_THE_CONSOLE))
def proposal(request: Any, db: None) -> Proposal:
    kind = request.param
    return Proposal(kind, kind.partition(".")[0], "it", SCENES[kind](), [], "Ticket 7")


def test_every_kind_is_tried_by_both_doors():
    assert SCENES.keys() == kinds_of_a_shell().keys() == _kinds.keys() - OF_THE_CONSOLE


def test_what_the_console_proposes_can_be_written_in_a_shell(proposal: Proposal):
    kind = _kinds[proposal.kind]
    given = {name: value for name, value in proposal.arguments.items() if value is not None or name != "after"}

    assert read_arguments(kind, words_of(kind, dict(proposal.arguments))) == given
    assert proposal.arguments.keys() <= (kind.takes or {}).keys()


def test_one_person_in_the_console_and_a_command_make_the_same_rows(proposal: Proposal, ann: User):
    words = words_of(_kinds[proposal.kind], dict(proposal.arguments))

    by_shell = changed(lambda: change(proposal.kind, *words), AUTHOR)

    assert by_shell == changed(lambda: propose(proposal, by=ann), ann.username)
    assert "staff.auditentry" in {model for model, _ in by_shell}
    assert all('"reason": "Ticket 7"' in row for model, row in by_shell if model == "staff.auditentry")


def test_two_people_in_the_console_and_a_command_make_the_same_rows(proposal: Proposal, ann, bea, settings):
    settings.FOUR_EYES = True
    words = words_of(_kinds[proposal.kind], dict(proposal.arguments))

    def ask_and_confirm() -> None:
        request = propose(proposal, by=ann).request
        assert request is not None
        confirm(request.pk, by=bea)

    by_shell = changed(lambda: change(proposal.kind, *words), AUTHOR)

    assert by_shell == changed(ask_and_confirm, ann.username, bea.username)


def test_both_doors_say_the_same(proposal: Proposal, ann: User):
    words = words_of(_kinds[proposal.kind], dict(proposal.arguments))
    said = []
    for make in (
        lambda: change(proposal.kind, *words)["done"],
        lambda: propose(proposal, by=ann).message,
    ):
        with transaction.atomic():
            said.append(re.sub(r"wdr_\w+", "wdr", make()))
            transaction.set_rollback(True)

    assert said[0] == said[1]


def test_both_doors_refuse_with_the_same_words(proposal: Proposal, ann: User):
    """What was done already, or is about nothing: whatever the operation says, both say it."""
    words = words_of(_kinds[proposal.kind], dict(proposal.arguments))
    change(proposal.kind, *words)
    said = []
    for make in (lambda: change(proposal.kind, *words), lambda: propose(proposal, by=ann)):
        try:
            with transaction.atomic():
                make()
                transaction.set_rollback(True)
        except (CommandError, OperationRefused) as refusal:
            said.append(str(refusal))

    assert len(said) in (0, 2)  # some changes may be made twice
    assert len(set(said)) < 2


def test_a_change_without_a_reason_is_refused_as_in_the_console(proposal: Proposal, ann: User):
    words = words_of(_kinds[proposal.kind], dict(proposal.arguments))

    before = read_rows()
    assert run("change", proposal.kind, *words, "--reason= ") == ([], "Give a reason.")
    assert "--reason" in run("change", proposal.kind, *words)[1]
    assert read_rows() == before
