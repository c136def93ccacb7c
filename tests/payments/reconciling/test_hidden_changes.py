"""`verify_log` notices what was changed for one payment and put back after it: policies, counted payments, clocks.

Everything is forged as by somebody who may do anything to the database.
"""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import connection

from foundation.kernel.errors import BudgetExceeded
from foundation.kernel.times import LARGEST_SKEW, utc_now
from ledger.clocks import find_total_at, repair_clock
from ledger.models import ClockRepair, LevelPayment
from ledger.recounting import recount
from policy.limits import Limits
from policy.models import Agent, PolicyRevision
from policy.operations import set_policy
from staff.models import AuditEntry
from tests.ledger.test_tallies import give_back
from tests.support.clocks import pay_at, problems_of
from tests.support.factories import decide, make_agent, make_service
from tests.support.histories import tamper
from tests.support.trees import make_child, make_path, move_agent, set_daily_limit

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
SET_BACK = "UPDATE policy_agent SET policy_revision = %s WHERE id = %s"


def problems(*agents):
    return [problem for agent in agents for problem in problems_of(agent)]


def check_constraints():
    """Check what is checked when a transaction ends: later, with the triggers off, it could not be."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


def limit_to(agent, limit, ago=MINUTE):
    def change(old: Limits) -> Limits:
        return replace(old, daily_limit=Decimal(limit))

    set_policy(agent.pk, change=change, by="test", now=utc_now() - ago)


# --- Policies ---------------------------------------------------------------------------------------------------------
def test_an_agent_that_was_set_back_to_an_earlier_policy_is_found():
    root, child = make_path(2)
    limit_to(root, "1")
    assert problems(root, child) == []

    tamper(SET_BACK, 1, root.pk)

    assert problems(root, child) == ["Its policy is recorded as revision 1; its newest revision is 2."]


@pytest.mark.parametrize("level", ["payer", "parent", "root"])
def test_what_was_approved_by_an_earlier_policy_is_found_also_when_that_is_over(level):
    service, agents = make_service(), dict(zip(("root", "parent", "payer"), make_path(3), strict=True))
    limit_to(agents[level], "1")
    with pytest.raises(BudgetExceeded):
        decide(agents["payer"], service, "9")
    check_constraints()

    tamper(SET_BACK, 1, agents[level].pk)
    decide(agents["payer"], service, "9")
    check_constraints()
    tamper(SET_BACK, 2, agents[level].pk)

    assert problems(*agents.values()) == [
        f"It was judged by polrev_1 of {agents[level].pk} when that had the policy polrev_2."
    ]


def test_what_was_approved_while_its_agent_was_outside_its_tree_is_found():
    root, agent, service = make_agent(daily_limit="1"), make_agent(), make_service()
    move_agent(agent, root)
    tamper("UPDATE policy_policyrevision SET created_at = created_at - interval '1 minute' WHERE number = 2")

    Agent.objects.filter(pk=agent.pk).update(policy_revision=1, ancestors=[])
    decide(agent, service, "9")
    Agent.objects.filter(pk=agent.pk).update(policy_revision=2, ancestors=[root.pk])

    assert problems(root, agent) == [f"It was judged by polrev_1 of {agent.pk} when that had the policy polrev_2."]


def test_a_policy_that_was_made_within_the_difference_of_clocks_may_have_been_later():
    agent, service = make_agent(), make_service()
    entry = decide(agent, service)
    limit_to(agent, "1")
    revision = PolicyRevision.objects.filter(agent=agent, number=2)

    for ago, is_found in ((LARGEST_SKEW - timedelta(milliseconds=1), False), (LARGEST_SKEW, True)):
        tamper(
            "UPDATE policy_policyrevision SET created_at = %s WHERE id = %s", entry.created_at - ago, revision.get().pk
        )
        assert bool(problems(agent)) is is_found


# --- Counted payments -------------------------------------------------------------------------------------------------
def test_payments_that_were_counted_anew_after_another_one_are_found():
    root, service = make_agent(daily_limit="10", weekly_limit="10"), make_service()
    one, other = make_child(root), make_child(root)
    decide(one, service, "9")
    check_constraints()

    tamper("DELETE FROM ledger_levelpayment WHERE level_id = %s", root.pk)
    later = decide(other, service, "9")
    recount(root.pk, by="ann", reason="R")

    found = problems(root, one, other)
    assert [one.split(":")[0] for one in found] == [
        f"{later.payment_id}, of an agent below, says {window} 9.00" for window in ("spentToday", "spentThisWeek")
    ]
    assert all("at least 18" in one for one in found)


@pytest.mark.parametrize(("days", "windows"), [(2, ["spentToday"]), (8, ["spentToday", "spentThisWeek"])])
def test_payments_that_were_in_the_past_for_the_time_of_another_one_are_found(days, windows):
    root, service = make_agent(daily_limit="10", weekly_limit="20"), make_service()
    one, other = make_child(root), make_child(root)
    decide(one, service, "9")
    check_constraints()
    moved = f"UPDATE ledger_levelpayment SET at = at + interval '%s days' WHERE level_id = '{root.pk}' AND number = 1"  # noqa: S608

    tamper(moved, -days)
    later = decide(other, service, "9")
    check_constraints()
    tamper(moved, days)

    found = problems(root, one, other)
    assert [text.split(" ")[6] for text in found if text.startswith(str(later.payment_id))] == windows
    assert len(found) == len(windows)


def test_what_left_a_window_or_was_given_back_or_waited_is_no_contradiction():
    root, service = make_agent(daily_limit="10", weekly_limit="100"), make_service()
    one, other, now = make_child(root), make_child(root), utc_now()
    pay_at(one, service, now - 9 * DAY, "9")
    pay_at(other, service, now - 8 * DAY, "9")
    pay_at(root, service, now - 2 * DAY - MINUTE, "1")
    returned = pay_at(one, service, now - 2 * DAY, "8")
    give_back(returned)
    pay_at(other, service, now - 2 * DAY + MINUTE, "1.75")
    pay_at(other, service, now - DAY, "8")
    at_once = [pay_at(agent, service, now, "0.25") for agent in (one, other, one)]

    assert len({entry.created_at for entry in at_once}) == 1
    recount(root.pk, by="ann", reason="R")
    assert problems(root, other) == []


@pytest.mark.parametrize("change", ["carried_until = NULL", "carried_until = carried_until - interval '1 day'"])
def test_a_payment_that_is_not_carried_as_long_as_a_repair_of_a_clock_says_is_found(change):
    root, service = make_agent(), make_service()
    child = make_child(root)
    repaired(child, service)
    assert problems(root, child) == []

    tamper(f"UPDATE ledger_levelpayment SET {change} WHERE level_id = %s", root.pk)  # noqa: S608 - ours

    (found,) = problems(root, child)
    assert found.endswith("of an agent below, is counted as of another moment than it was approved.")


# --- Clocks -----------------------------------------------------------------------------------------------------------
def repaired(agent, service):
    pay_at(agent, service, utc_now() + DAY)
    return repair_clock(agent.pk, by="ops", reason="NTP was off")


def test_a_repair_that_nobody_made_is_found():
    root, service = make_agent(daily_limit="10"), make_service()
    child = make_child(root)
    decide(child, service, "9")
    row, moment = Agent.objects.get(pk=child.pk), utc_now() - 400 * DAY
    assert row.last_entry_at is not None
    ClockRepair.objects.create(
        agent=row, number=1, head_id=row.last_entry_id, head_hash=row.last_entry_hash, head_at=row.last_entry_at,
        spent_total=row.spent_total, spent_before=find_total_at(row, 0, moment), author="ops", reason="NTP was off",
        repaired_at=moment,
    )  # fmt: skip
    Agent.objects.filter(pk=child.pk).update(last_entry_at=moment)

    assert problems(root, child) == ["The clock repair 1 is not in the audit."]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("subject = 'another'", "is not in the audit."),
        ("author = 'ann'", "is not in the audit."),
        ("action = 'agent.paused'", "is not in the audit."),
        ("after = '{}'", "is not in the audit."),
        ("at = at + interval '2 minutes'", "is of another moment than its entry in the audit was made."),
        ("at = at - interval '400 days'", "is of another moment than its entry in the audit was made."),
    ],
)
def test_a_repair_whose_entry_in_the_audit_is_another_one_is_found(change, problem):
    agent = make_agent()
    repaired(agent, make_service())
    entry = AuditEntry.objects.get(subject=agent.pk, action="agent.clock_repaired")
    assert problems(agent) == []

    tamper(f"UPDATE staff_auditentry SET {change} WHERE id = %s", entry.pk)  # noqa: S608 - ours

    assert problems(agent) == [f"The clock repair 1 {problem}"]


# --- What happens in life ---------------------------------------------------------------------------------------------
def test_policies_moves_repairs_and_returns_are_no_contradiction():
    root, other_root, service = make_agent(daily_limit="20"), make_agent(), make_service()
    one, other = make_child(root), make_child(root)
    for limit in ("21", "22", "23"):
        set_daily_limit(root, limit)
        set_daily_limit(one, limit)
        decide(one, service)
    repaired(one, service)
    for limit in ("24", "25"):
        set_daily_limit(root, limit)
        decide(other, service)
    returned = decide(other, service, "2")
    give_back(returned)
    move_agent(one, other_root)
    decide(one, service)
    pay_at(one, service, utc_now() + DAY)
    set_daily_limit(one, "26")  # by a clock that is right again
    set_daily_limit(other_root, "27")
    assert problems(root, other_root, one) == []
    repair_clock(one.pk, by="ops", reason="NTP was off again")
    decide(one, service)
    move_agent(one, root)
    decide(one, service)
    decide(other, service)

    assert LevelPayment.objects.filter(level=root).count() == 9
    assert [text for text in problems(root, other_root, one, other) if str(returned.payment_id) not in text] == []
