"""No sequence of what staff do lets one person do what takes two: in memory, many; in the real console, some."""

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction

from tests.staff.acts.consoles import MemoryConsole
from tests.staff.acts.real import BothConsoles
from tests.staff.acts.rules import WEAKER, Rule, RuleOf1ffccfc
from tests.staff.acts.stories import EVERYTHING, Broken, Story

SEQUENCES, STEPS = 10_000, 60
REAL_SEQUENCES, REAL_STEPS = 200, 30
PARTS = 4
# `make test` plays one part, `make hard` the others.
EACH_PART = pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.hard) for part in range(1, PARTS))]
)


@EACH_PART
def test_no_sequence_by_one_person_moves_money_changes_an_account_or_opens_one(part):
    by_two = 0
    for seed in range(part, SEQUENCES, PARTS):
        story = Story(seed, MemoryConsole(Rule()))
        story.play(STEPS)
        by_two += story.by_two

    # Two people do things all the time: a rule that refuses everything would be of no use.
    assert by_two > SEQUENCES / PARTS


@pytest.mark.parametrize("rule", WEAKER)
def test_of_a_weaker_rule_a_sequence_is_found_that_one_person_breaks_it_with(rule):
    assert find_broken(rule())


def test_the_rule_of_release_1ffccfc_lets_one_person_move_money():
    assert find_broken(RuleOf1ffccfc(), ("money",))


@EACH_PART
def test_the_console_does_in_each_sequence_what_the_one_in_memory_does(db, settings, part):
    User.objects.update(is_active=False, is_superuser=False)
    Group.objects.get(name="Administrator").user_set.clear()
    by_two = 0
    for seed in range(part, REAL_SEQUENCES, PARTS):
        with transaction.atomic():
            story = Story(seed, BothConsoles(settings))
            story.pauses = (0,) * 9 + (70,)  # none so long that what is signed would have to be backdated
            story.play(REAL_STEPS)
            by_two += story.by_two
            transaction.set_rollback(True)

    assert by_two


def find_broken(rule, counts=EVERYTHING):
    """Give the first story that breaks a rule; None: there is none."""
    for seed in range(SEQUENCES):
        try:
            Story(seed, MemoryConsole(rule), counts).play(STEPS)
        except Broken as broken:
            return broken
    return None
