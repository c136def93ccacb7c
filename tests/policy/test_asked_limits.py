"""The optional limits as arguments of changes: of the console's proposals, of earlier ones, and of a shell."""

from dataclasses import replace
from decimal import Decimal

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from policy.limit_texts import read_limits, write_limits
from policy.limits import Limits
from policy.models import PolicyRevision
from policy.more_limits import NO_MORE, PARTS, MoreLimits
from policy.proposals import KIND, MAKE_AGENT, propose_agent, propose_policy
from policy.revisions import limits_of
from staff.kinds import make
from staff.models import ChangeRequest
from staff.second_person import confirm
from tests.staff.people import make_user
from tests.staff.scenes import change
from tests.support.commands import run
from tests.support.factories import make_agent, new_name
from tests.support.limit_ladders import RUNGS, limited, optional

NAMES = {part.field for part in PARTS}
NINE = Limits(Decimal(9), Decimal(9), Decimal(9), ["a"])
BASE = {"max_per_payment": "1", "daily_limit": "2", "weekly_limit": "3", "allowed_services": None}


def in_force(agent_id):
    return PolicyRevision.objects.select_related("agent").filter(agent=agent_id).latest("number")


def more_of(agent_id):
    return in_force(agent_id).more


# --- As values --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("field", "_wider", "text"), RUNGS)
def test_what_is_written_carries_every_limit_and_is_read_as_it_was(field, _wider, text):
    limits = Limits(Decimal(1), Decimal(2), Decimal(3), ["a"], limited(field, text))

    written = write_limits(limits)

    assert written.keys() == {*BASE, *NAMES}
    assert (written[field], written["allowed_services"]) == (text, ["a"])
    assert read_limits(written, Asset.USDC) == limits
    assert read_limits(written, Asset.USDC, replace(NINE, more=MoreLimits(hourly_limit=Decimal(1)))) == limits


def test_what_is_not_named_is_that_of_the_present_limits_and_none_of_a_new_agent():
    present = replace(NINE, more=MoreLimits(hourly_limit=Decimal(5), payments_per_day=3))

    assert read_limits({"daily_limit": "4"}, Asset.USDC, present) == replace(present, daily_limit=Decimal(4))
    assert read_limits({"hourly_limit": None}, Asset.USDC, present).more == MoreLimits(payments_per_day=3)
    assert read_limits({"hourly_limit": "6"}, Asset.USDC, present).more == replace(
        present.more, hourly_limit=Decimal(6)
    )
    assert read_limits(BASE, Asset.USDC).more == NO_MORE


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("hourly_limit", "1e3", "hourly_limit: Must be a plain decimal string"),
        ("hourly_limit", "", "hourly_limit: Must be a plain decimal string"),
        ("total_limit", "0.0000001", "total_limit: USDC has 6 decimals."),
        ("payments_per_day", "-1", "payments_per_day: Must be a whole number up to"),
        ("payments_per_day", "1" * 5000, "payments_per_day: "),
        ("new_payee_wait_hours", "0", "new_payee_wait_hours: Must be above zero."),
        ("allowed_hours", "mon 09:00-17:00", "allowed_hours: Must be hours with a time zone"),
        ("allowed_from", "2026-05-14", "allowed_from: Must be a timestamp"),
        ("allowed_until", "2026-13-14T00:00:00Z", "allowed_until: There is no such moment."),
        ("payee_limits", "shop: day 0.0000001", "payee_limits: shop, day: USDC has 6 decimals."),
        ("payee_limits", "shop", "payee_limits: Must be exceptions such as"),
    ],
)
def test_what_is_not_of_its_form_is_refused_with_the_name_of_the_argument(name, text, said):
    with pytest.raises(OperationRefused, match=said):
        read_limits({**BASE, name: text}, Asset.USDC)


# --- As requests ------------------------------------------------------------------------------------------------------
@pytest.fixture
def asked(db, settings):
    """Give what stores a request as an earlier release did, which knew of no optional limit; and what confirms it."""
    settings.FOUR_EYES = True
    rights = ("policy.add_agent", "policy.change_agent")
    ann, bea = make_user(*rights), make_user(*rights)

    def confirm_without_names(propose, *arguments):
        request = propose(*arguments, shown=[], reason="R", by=ann).request
        known = {name: value for name, value in request.arguments.items() if name not in NAMES}
        ChangeRequest.objects.filter(pk=request.pk).update(arguments=known)
        confirm(request.pk, by=bea)

    return confirm_without_names


def test_a_request_of_an_earlier_release_keeps_the_optional_limits_as_they_are(asked):
    agent = make_agent(hourly_limit=Decimal(5), **optional("payee_limits", "shop: day 15.00"))
    wider = replace(limits_of(in_force(agent.id)), weekly_limit=Decimal(700))

    asked(propose_policy, in_force(agent.id), wider)

    assert (in_force(agent.id).number, in_force(agent.id).weekly_limit) == (2, Decimal(700))
    assert more_of(agent.id) == wider.more


def test_an_agent_that_an_earlier_release_asked_for_has_no_optional_limits(asked):
    name = new_name("agent")

    asked(propose_agent, name, Asset.USDC, Limits(Decimal(1), Decimal(2), Decimal(700)))

    assert more_of(name) == NO_MORE


# --- In a shell -------------------------------------------------------------------------------------------------------
def test_a_shell_sets_keeps_and_removes_limits(db):
    agent = make_agent(payments_per_hour=7)
    hours, payees = "mon-fri 09:00-17:00 Europe/Berlin", "shop: day 15.00; a: week none"
    of_agent = f"agent={agent.id}"

    change(KIND, of_agent, "hourly_limit=5", f"allowed_hours={hours}", f"payee_limits={payees}", "daily_limit=7")
    change(KIND, of_agent, "daily_limit=8")
    written = write_limits(limits_of(in_force(agent.id)))
    named = {"hourly_limit": "5.00", "allowed_hours": hours, "payments_per_hour": "7", "daily_limit": "8.00"}
    assert written.items() >= named.items()
    assert written["payee_limits"] == "a: week none; shop: day 15.00"

    change(KIND, of_agent, "hourly_limit=none", "payee_limits=none", "payments_per_hour=6")
    assert more_of(agent.id) == MoreLimits(payments_per_hour=6, **optional("allowed_hours", hours))


@pytest.mark.parametrize(("field", "_wider", "text"), [rung for rung in RUNGS if rung[2] is not None])
def test_a_shell_makes_an_agent_with_any_of_the_limits(db, field, _wider, text):
    name, limits = new_name("agent"), write_limits(replace(NINE, more=limited(field, text)))
    words = [
        f"{one}={'none' if value is None else value}" for one, value in limits.items() if one != "allowed_services"
    ]

    change(MAKE_AGENT, f"agent={name}", "asset=USDC", "allowed_services=*", *words)

    assert more_of(name) == limited(field, text)


def test_null_removes_a_limit_and_alone_is_a_change(db):
    agent = make_agent(hourly_limit=Decimal(5), payments_per_day=3)

    make(KIND, {"agent": agent.id, "hourly_limit": None}, by="test", reason="R")

    assert more_of(agent.id) == MoreLimits(payments_per_day=3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["hourly_limit=x"], "hourly_limit: Must be a plain decimal string"),
        (["hourly_limit=None"], "hourly_limit: Must be a plain decimal string"),
        (["allowed_hours=mon 25:00-26:00 UTC"], "allowed_hours: There is no time 25:00."),
        (["new_payee_payments=3"], "To limit the first payments to a payee, give their number"),
        (["allowed_from=2026-05-14T18:00:00Z", "allowed_until=2026-05-14T18:00:00Z"], "ends after it begins"),
        (["yearly_limit=5"], "hourly_limit, monthly_limit, total_limit"),
    ],
)
def test_a_shell_is_told_what_is_wrong_and_nothing_is_changed(db, words, said):
    agent = make_agent()

    assert said in run("change", KIND, f"agent={agent.id}", *words, "--reason=R")[1]
    assert in_force(agent.id).number == 1
