"""Commands that put agents within the budgets of others: `create_agent`, its files, `set_policy`, `change`."""

from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from foundation.kernel.assets import Asset
from payments.management import agent_making
from policy.agent_archive import archive_agent
from policy.models import Agent, PolicyRevision
from policy.operations import pause_agent
from staff.kinds import kinds_of_a_shell
from tests.support.agent_files import HEADER, Write, make, names, refusal, write_agent_file
from tests.support.commands import run
from tests.support.factories import make_agent, new_name
from tests.support.trees import ancestors_of, make_child, make_path

pytestmark = pytest.mark.django_db
TREE = f"{HEADER},parent"
LIMITS = ["--asset", "USDC", "--max-per-payment", "10", "--daily-limit", "50", "--weekly-limit", "100"]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    return partial(write_agent_file, tmp_path, header=TREE)


def place_of(name: str) -> list[str] | None:
    return Agent.objects.values_list("ancestors", flat=True).get(pk=name)


def said_by(*arguments: str) -> str:
    lines, error = run(*arguments)
    assert (lines, error is None) == ([], False)
    return str(error)


# --- Files
@pytest.mark.parametrize("chunk", [1, 2, 250])
def test_a_parent_is_an_agent_that_exists_or_of_an_earlier_line(write, monkeypatch, chunk):
    monkeypatch.setattr(agent_making, "_CHUNK", chunk)
    there = make_agent()
    root, middle, leaf, other = names(4)
    path = write(
        f"{root},USDC,9,9,9,", f"{middle},USDC,9,9,9,{root}", f"{leaf},USDC,9,9,9,{middle}",
        f"{other},USDC,9,9,9,{there.pk}",
    )  # fmt: skip

    assert make(path)["created"] == 4

    assert [place_of(one) for one in (root, middle, leaf, other)] == [[], [root], [root, middle], [there.pk]]
    assert ancestors_of(there) == []
    assert make(path)["unchanged"] == [root, middle, leaf, other]


def test_a_run_that_was_interrupted_is_finished_below_what_it_has_made(write):
    root, leaf = names(2)
    make(write(f"{root},USDC,9,9,9,"))

    again = make(write(f"{root},USDC,9,9,9,", f"{leaf},USDC,9,9,9,{root}"))

    assert (again["created"], again["unchanged"], place_of(leaf)) == (1, [root], [root])


def test_an_agent_that_exists_under_another_parent_is_not_the_same(write):
    child = make_child(make_agent(), max_per_payment="9", daily_limit="9", weekly_limit="9")

    said = refusal(write(f"{child.pk},{child.asset},9,9,9,{make_agent().pk}"))

    assert f"There is an agent {child.pk} already, with another asset or policy" in said


def test_every_line_whose_agent_cannot_be_under_its_parent_is_named_and_nothing_is_made(write):
    a, b, c, d, e, late = names(6)
    archived, euro, leaf = make_agent(balance="0"), make_agent(asset=Asset.EURC), make_path(5)[-1]
    pause_agent(archived.pk, by="test")
    archive_agent(archived.pk, by="test")
    path = write(
        f"{a},USDC,9,9,9,nobody",
        f"{b},USDC,9,9,9,{late}",
        f"{c},USDC,9,9,9,{archived.pk}",
        f"{d},USDC,9,9,9,{euro.pk}",
        f"{e},USDC,9,9,9,{leaf.pk}",
        f"{late},USDC,9,9,9,{late}",
    )

    assert refusal(path).splitlines()[1:] == [
        "line 2: parent: There is no agent nobody.",
        f"line 3: parent: There is no agent {late}. It is in line 7: put that line before this one.",
        f"line 4: parent: {archived.pk} is archived: no agent can be under it.",
        f"line 5: parent: {euro.pk} is in EURC: an agent in USDC cannot be under it.",
        f"line 6: parent: Under {leaf.pk} there would be more than 5 levels of budgets.",
        f"line 7: parent: There is no agent {late}. It is in line 7: put that line before this one.",
    ]
    assert not Agent.objects.filter(pk__in=[a, b, c, d, e, late]).exists()


def test_levels_and_assets_count_among_the_lines_of_a_file_too(write):
    path = names(7)
    lines = [f"{path[0]},USDC,9,9,9,"]
    lines += [f"{name},USDC,9,9,9,{above}" for above, name in pairwise(path[:6])]

    said = refusal(write(*lines, f"{path[6]},EURC,9,9,9,{path[0]}")).splitlines()[1:]

    assert said == [
        f"line 7: parent: Under {path[4]} there would be more than 5 levels of budgets.",
        f"line 8: parent: {path[0]} is in USDC: an agent in EURC cannot be under it.",
    ]


def test_what_is_under_a_line_that_is_wrong_is_not_named_for_that(write):
    root, middle, leaf = names(3)

    said = refusal(write(f"{root},USDC,x,9,9,", f"{middle},USDC,9,9,9,{root}", f"{leaf},USDC,9,9,9,{middle}"))

    assert [line.partition(":")[0] for line in said.splitlines()[1:]] == ["line 2"]


# --- Single agents
def test_an_agent_is_made_under_a_parent_moved_and_taken_out_by_an_option():
    old, new, name = make_agent(), make_agent(), new_name("agent")

    made, _ = run("create_agent", name, *LIMITS, "--parent", old.pk)
    assert (place_of(name), f'"parent": "{old.pk}"' in made[-1], '"levels": [' in made[-1]) == ([old.pk], True, True)
    moved, _ = run("set_policy", name, "--parent", new.pk)
    assert (place_of(name), f'"parent": "{new.pk}"' in moved[-1]) == ([new.pk], True)
    left, _ = run("set_policy", name, "--parent", "none")
    assert (place_of(name), '"parent"' in left[-1], '"levels"' in left[-1]) == ([], False, False)
    assert PolicyRevision.objects.filter(agent=name).count() == 3


def test_a_parent_that_cannot_be_is_refused_by_both_commands_and_nothing_changes():
    agent, name = make_agent(), new_name("agent")

    for parent, said in (("nobody", "There is no agent nobody."), (agent.pk, f"which is {agent.pk} itself")):
        assert said in said_by("set_policy", agent.pk, "--parent", parent)
    assert "There is no agent nobody." in said_by("create_agent", name, *LIMITS, "--parent", "nobody")
    assert not Agent.objects.filter(pk=name).exists()
    assert PolicyRevision.objects.filter(agent=agent).count() == 1


def test_limits_that_are_tried_name_no_parent_and_what_was_tried_leaves_the_agent_where_it_is():
    parent = make_agent()
    child = make_child(parent)

    assert "under the parent that the agent has" in said_by("set_policy", child.pk, "--shadow", "--parent", "none")
    assert run("set_policy", child.pk, "--shadow", "--daily-limit", "7")[1] is None
    assert run("set_policy", child.pk, "--from-shadow")[1] is None

    assert place_of(child.pk) == [parent.pk]
    revision = PolicyRevision.objects.filter(agent=child).latest("number")
    assert (revision.daily_limit, revision.more.parent) == (7, parent.pk)


def test_a_change_of_a_template_and_one_of_limits_to_try_offer_no_parent():
    takes = {name: kind.takes or {} for name, kind in kinds_of_a_shell().items()}

    assert {name for name, arguments in takes.items() if "parent" in arguments} == {"agent.make", "policy.raise"}
    assert all("hourly_limit" in takes[name] for name in ("template.make", "template.change", "shadow.begin"))


def test_an_agent_is_moved_by_the_general_command_too():
    parent, agent = make_agent(), make_agent()

    lines, error = run("change", "policy.raise", f"agent={agent.pk}", f"parent={parent.pk}", "--reason", "A team")

    assert (error, len(lines), place_of(agent.pk)) == (None, 1, [parent.pk])
