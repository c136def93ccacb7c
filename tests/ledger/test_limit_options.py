"""The options of `create_agent` and `set_policy` for the optional limits."""

import json

import pytest
from django.core.management import load_command_class

from foundation.kernel.assets import Asset
from ledger.queries import find_budget
from policy.models import Agent, PolicyRevision
from policy.more_limits import NO_MORE, PART_OF_FIELD, PARTS, MoreLimits
from tests.support.commands import run
from tests.support.factories import make_agent, new_name
from tests.support.limit_ladders import LADDERS, limited, optional

pytestmark = pytest.mark.django_db
BASE = ["--asset", "USDC", "--max-per-payment", "10", "--daily-limit", "50", "--weekly-limit", "100"]
SOME = [(field, text) for field, ladder in LADDERS.items() for text in ladder if text is not None]


def options(field, text):
    """Write a limit, and what is beside it, as options."""
    beside = {name: str(value) for name, value in optional(field, text).items() if name != field}
    return [word for name, value in {**beside, field: text}.items() for word in (PART_OF_FIELD[name].option, value)]


def more_of(agent_id):
    return PolicyRevision.objects.filter(agent=agent_id).latest("number").more


def done(*arguments):
    lines, error = run(*arguments)
    assert error is None, error
    return json.loads(lines[-1])


def refusal(*arguments):
    lines, error = run(*arguments)
    assert (lines, error is None) == ([], False)
    return error


@pytest.mark.parametrize(("field", "text"), SOME)
def test_each_limit_has_an_option_of_both_commands(field, text):
    name, agent = new_name("agent"), make_agent()

    made = done("create_agent", name, *BASE, *options(field, text))
    changed = done("set_policy", agent.id, *options(field, text))

    assert more_of(name) == more_of(agent.id) == limited(field, text)
    value = getattr(limited(field, text), field)
    shown = PART_OF_FIELD[field].kind.json(value)
    assert made[PART_OF_FIELD[field].name] == changed[PART_OF_FIELD[field].name] == shown
    budget = find_budget(name)
    assert budget is not None
    assert budget.more == limited(field, text)


def test_what_is_not_named_stays_and_none_removes_it():
    agent = make_agent(payments_per_hour=7)
    done("set_policy", agent.id, "--hourly-limit", "5", "--payee-limits", "shop: day 5\nb: week none")

    done("set_policy", agent.id, "--daily-limit", "20")
    assert more_of(agent.id) == MoreLimits(
        payments_per_hour=7,
        **optional("hourly_limit", "5"),
        payee_limits=optional("payee_limits", "shop: day 5; b: week none")["payee_limits"],
    )
    done("set_policy", agent.id, "--hourly-limit", "none", "--payee-limits", "none")
    assert more_of(agent.id) == MoreLimits(payments_per_hour=7)
    printed = done("set_policy", agent.id, "--payments-per-hour", "none")
    assert more_of(agent.id) == NO_MORE
    assert printed.keys().isdisjoint({part.name for part in PARTS})


def test_a_new_agent_has_no_limit_that_is_none():
    name = new_name("agent")

    done("create_agent", name, *BASE, "--hourly-limit", "none")

    assert more_of(name) == NO_MORE


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--hourly-limit", "x"], "--hourly-limit: Must be a plain decimal string"),
        # What an empty variable of a shell leaves is not `none`.
        (["--hourly-limit", ""], "--hourly-limit: Must be a plain decimal string"),
        (["--hourly-limit=-1"], "--hourly-limit: Must be a plain decimal string"),
        (["--total-limit", "0.0000001"], "--total-limit: USDC has 6 decimals."),
        (["--payments-per-day", "1.5"], "--payments-per-day: Must be a whole number"),
        (["--new-payee-wait-hours", "0"], "--new-payee-wait-hours: Must be above zero."),
        (["--allowed-hours", "mon-fri 09:00-17:00"], "--allowed-hours: Must be hours with a time zone"),
        (["--allowed-until", "tomorrow"], "--allowed-until: Must be a timestamp"),
        (["--payee-limits", "shop: day x"], "--payee-limits: shop, day: Must be a plain decimal string"),
        (["--new-payee-payments", "3"], "To limit the first payments to a payee, give their number"),
        (
            ["--allowed-from", "2026-05-14T18:00:00Z", "--allowed-until", "2026-05-14T18:00:00Z"],
            "An allowance ends after it begins.",
        ),
    ],
)
def test_what_is_not_of_its_form_is_named_with_its_option_and_changes_nothing(arguments, said):
    name, agent = new_name("agent"), make_agent(asset=Asset.USDC)

    assert said in refusal("set_policy", agent.id, *arguments)
    assert said in refusal("create_agent", name, *BASE, *arguments)
    assert PolicyRevision.objects.filter(agent=agent).count() == 1
    assert not Agent.objects.filter(pk=name).exists()


def test_what_is_in_a_file_of_agents_is_not_an_option_too():
    said = refusal("create_agent", "--from", "f", "--hourly-limit", "5")

    assert "everything about the agents is in the file" in said


@pytest.mark.parametrize(("app", "command"), [("payments", "create_agent"), ("ledger", "set_policy")])
def test_help_has_each_limit_in_a_group_of_its_own_with_its_form_and_what_it_is(app, command):
    shown = load_command_class(app, command).create_parser("manage.py", command).format_help()

    group = " ".join(shown.partition("optional limits:\n")[2].split())
    for part in PARTS:
        assert f"{part.option} {part.kind.form} {' '.join(part.help.split())}" in group
