"""`verify_log` notices what was forged of trees: an agent's place, what counts above a payer, what an approval says.

Everything is forged as by somebody who may do anything to the database.
"""

from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction

from foundation.kernel.errors import OperationRefused, PolicySignerUnavailable
from ledger.models import LevelPayment
from ledger.recounting import recount
from policy.models import Agent
from policy.more_limits import MoreLimits, write_more
from tests.ledger.test_tallies import give_back
from tests.payments.holding.test_forged_holds import explanation_of
from tests.support.clocks import problems_of
from tests.support.factories import decide, make_agent, make_service
from tests.support.histories import tamper
from tests.support.trees import ancestors_of, make_child, make_path, move_agent

pytestmark = [pytest.mark.django_db, pytest.mark.rolled_back]


class Tree:
    """Three agents one above the other, payments of the lowest, one of which was given back, and one that waits."""

    def __init__(self) -> None:
        self.root, self.middle, self.leaf = make_path(3)
        move_agent(self.leaf, self.middle)
        self.service = make_service()
        self.first, self.returned, self.last = (decide(self.leaf, self.service, amount) for amount in "234")
        give_back(self.returned)
        asking = make_child(self.middle, approval_above=Decimal(5))
        self.asking, self.held = asking, decide(asking, self.service, "6")
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")

    def problems(self) -> list[str]:
        """Verify all agents of the tree. What was given back here has not failed, which other tests are about."""
        found = [one for agent in self.agents for one in problems_of(agent)]
        return [one for one in found if not one.startswith(f"Payment {self.returned.payment_id} is approved")]

    @property
    def agents(self) -> tuple[Agent, ...]:
        return self.root, self.middle, self.leaf, self.asking

    def problems_after(self, statement: str, *parameters: Any) -> list[str]:
        with transaction.atomic():
            tamper(statement, *parameters)
            found = self.problems()
            transaction.set_rollback(True)
        return found


@pytest.fixture
def tree(db: None) -> Tree:
    made = Tree()
    assert made.problems() == []
    return made


# --- Where an agent is ------------------------------------------------------------------------------------------------
def test_an_agent_that_was_taken_from_under_another_one_is_found(tree):
    forged = "UPDATE policy_agent SET ancestors = '{}' WHERE id = %s"

    under = f"{tree.root.pk}/{tree.middle.pk}"
    assert tree.problems_after(forged, tree.leaf.pk) == [
        f"By its policy it is under {under}; by its record, under nobody."
    ]


def test_an_agent_that_is_said_to_be_in_no_tree_is_found(tree):
    alone = "It is recorded as an agent that was never above or below another one, and it was."

    for agent in tree.agents:
        assert alone in tree.problems_after("UPDATE policy_agent SET ancestors = NULL WHERE id = %s", agent.pk)


def test_a_root_whose_children_were_moved_away_still_has_to_count_them(tree):
    for agent in (tree.leaf, tree.asking):
        move_agent(agent, None)
    move_agent(tree.middle, None)
    assert tree.problems() == []

    assert tree.problems_after("UPDATE policy_agent SET ancestors = NULL WHERE id = %s", tree.root.pk) == [
        "It counts payments of others, and is recorded as an agent that was never above another one."
    ]


def test_an_agent_under_one_of_another_asset_is_found(tree):
    found = tree.problems_after("UPDATE policy_agent SET asset = 'SOL' WHERE id = %s", tree.root.pk)

    assert f"{tree.root.pk}, above it, is in SOL." in found


def test_policies_in_a_circle_and_trees_that_are_too_high_are_found(tree):
    too_many = "By the policies in force there are more than 5 levels of budgets, or a circle of them."
    forged = "UPDATE policy_policyrevision SET more_json = %s WHERE agent_id = %s"
    assert too_many in tree.problems_after(forged, write_more(MoreLimits(parent=tree.leaf.pk)), tree.root.pk)

    top = make_path(3)
    assert too_many in tree.problems_after(forged, write_more(MoreLimits(parent=top[-1].pk)), tree.root.pk)
    assert too_many not in tree.problems_after(forged, write_more(MoreLimits(parent=top[1].pk)), tree.root.pk)


def test_what_waits_and_was_taken_from_the_agents_above_is_found(tree):
    forged = "UPDATE ledger_hold SET ancestors = %s WHERE id = %s"

    for ancestors in (None, [], [tree.middle.pk]):
        assert tree.problems_after(forged, ancestors, tree.held.payment_id) == [
            f"{tree.held.payment_id} does not count at the agents above this one."
        ]


# --- What is counted above a payer ------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("number = number + 9", "The totals of what is paid below the agent are wrong from {} on."),
        ("spent = spent - 1", "The totals of what is paid below the agent are wrong from {} on."),
        ("payee_number = payee_number + 1", "The totals of what is paid below the agent are wrong from {} on."),
        ("payee_spent = payee_spent - 1", "The totals of what is paid below the agent are wrong from {} on."),
        ("amount = amount - 1, spent = spent - 1, payee_spent = payee_spent - 1", "{}, of an agent below, is not"),
        ("payee = 'another'", "{}, of an agent below, is not counted as it was approved."),
        ("at = at - interval '8 days'", "{}, of an agent below, is counted as of another moment than it was approved."),
        ("at = at + interval '1 hour'", "{}, of an agent below, is counted as of another moment than it was approved."),
        ("is_returned = true", "{}, of an agent below, was given back or not, and counts otherwise."),
        ("payment_id = 'pay_0'", "pay_0 is counted, and no decision of an agent below approves it."),
        ("level_id = %(other)s", "{} is not counted at"),
    ],
)
@pytest.mark.parametrize("level", ["root", "middle"])
def test_a_changed_row_is_found(tree, level, change, problem):
    statement = f"UPDATE ledger_levelpayment SET {change} WHERE payment_id = %s AND level_id = %s"  # noqa: S608 - ours
    statement = statement.replace("%(other)s", f"'{make_agent().pk}'")
    payment = str(tree.last.payment_id)

    found = tree.problems_after(statement, payment, getattr(tree, level).pk)

    assert any(one.startswith(problem.format(payment)) for one in found), found


@pytest.mark.parametrize("which", ["first", "last"])
def test_a_missing_row_is_found(tree, which):
    payment = getattr(tree, which).payment_id
    statement = "DELETE FROM ledger_levelpayment WHERE payment_id = %s AND level_id = %s"

    found = tree.problems_after(statement, payment, tree.root.pk)

    assert f"{payment} is not counted at {tree.root.pk}, above the agent." in found


def test_a_payment_that_counts_again_after_it_was_given_back_is_found(tree):
    statement = "UPDATE ledger_levelpayment SET is_returned = false WHERE payment_id = %s AND level_id = %s"

    assert tree.problems_after(statement, tree.returned.payment_id, tree.root.pk) == [
        f"{tree.returned.payment_id}, of an agent below, was given back or not, and counts otherwise."
    ]


def test_a_row_of_a_payment_that_was_not_approved_under_the_agent_is_found(tree):
    stranger = decide(make_agent(), tree.service)
    statement = (
        "INSERT INTO ledger_levelpayment"
        " (level_id, number, payment_id, payee, at, amount, spent, payee_number, payee_spent)"
        " SELECT level_id, 4, %s, payee, %s, 1, spent + 1, 4, payee_spent + 1 FROM ledger_levelpayment"
        " WHERE level_id = %s AND number = 3"
    )

    assert tree.problems_after(statement, stranger.payment_id, stranger.created_at, tree.root.pk) == [
        f"{stranger.payment_id} is counted, and no decision of an agent below approves it."
    ]


# --- What an approval says --------------------------------------------------------------------------------------------
def test_what_was_approved_while_its_agent_was_hidden_from_a_tree_is_found_also_when_that_is_over(tree):
    Agent.objects.filter(pk=tree.leaf.pk).update(ancestors=[])
    with pytest.raises(PolicySignerUnavailable, match="under others is not certain"):
        decide(tree.leaf, tree.service)
    tamper("UPDATE policy_policyrevision SET more_json = '{}' WHERE agent_id = %s", tree.leaf.pk)
    decide(tree.leaf, tree.service)
    parent = write_more(MoreLimits(parent=tree.middle.pk))
    tamper("UPDATE policy_policyrevision SET more_json = %s WHERE agent_id = %s", parent, tree.leaf.pk)
    Agent.objects.filter(pk=tree.leaf.pk).update(ancestors=[tree.root.pk, tree.middle.pk])

    assert tree.problems() == [
        "It does not name the agents that are above its own by the policies that it was judged by."
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"spentToday": "50.01"}, "It was approved above a limit of {}, above the agent."),
        ({"spentThisWeek": "100.01"}, "It was approved above a limit of {}, above the agent."),
        ({"dailyLimit": "60.00"}, "The policy polrev_1 of {}, above the agent, is not the one that it was judged by."),
        ({"policyRevision": "polrev_9"}, "It does not name the agents that are above its own by the policies"),
        ({"policyRevision": "polrev_99999999999999999999"}, "It does not name the agents that are above its own"),
        ({"agentId": "somebody"}, "It does not name the agents that are above its own by the policies"),
        ({"spentToday": None}, "It was approved above a limit of {}, above the agent."),
    ],
)
def test_an_approval_that_does_not_fit_the_policy_of_an_agent_above_is_found(tree, changes, problem):
    levels = tree.last.explanation["levels"]
    forged = explanation_of(tree.last, levels=[{**levels[0], **changes}, *levels[1:]])

    found = tree.problems_after("UPDATE ledger_logentry SET explanation_json = %s WHERE id = %s", forged, tree.last.pk)

    assert any(one.startswith(problem.format(tree.middle.pk)) for one in found), found


@pytest.mark.parametrize(
    ("more", "is_found"),
    [
        (MoreLimits(approval_above=Decimal("3.99")), True),
        (MoreLimits(approval_above=Decimal(4)), False),
        (MoreLimits(approval_above_day=Decimal("8.99")), True),
        (MoreLimits(approval_above_day=Decimal(9)), False),
        (MoreLimits(approval_for_first=True), True),
    ],
)
def test_an_approval_without_a_person_whom_a_policy_above_asks_for_is_found(tree, more, is_found):
    tamper("UPDATE policy_policyrevision SET more_json = %s WHERE agent_id = %s", write_more(more), tree.root.pk)
    unasked = f"It was approved without a person, whom the policy of {tree.root.pk}, above the agent, has asked."

    assert (unasked in problems_of(tree.leaf)) is is_found


# --- What mends it ----------------------------------------------------------------------------------------------------
def test_all_that_is_counted_and_recorded_of_an_agent_is_made_anew_from_the_log(tree):
    before = list(LevelPayment.objects.filter(level=tree.root).order_by("number").values())
    tamper("DELETE FROM ledger_levelpayment WHERE level_id = %s AND number = 2", tree.root.pk)
    tamper("UPDATE policy_agent SET ancestors = NULL WHERE id = ANY (%s)", [agent.pk for agent in tree.agents])
    assert tree.problems()

    for agent in tree.agents:
        recount(agent.pk, by="ann", reason="Somebody was in the database")

    assert tree.problems() == []
    assert list(LevelPayment.objects.filter(level=tree.root).order_by("number").values()) == before
    assert ancestors_of(tree.leaf) == [tree.root.pk, tree.middle.pk]
    decide(tree.leaf, tree.service)
    assert tree.problems() == []


def test_an_agent_of_no_tree_stays_in_none_and_a_former_root_one():
    alone, (root, child) = make_agent(), make_path(2)
    decide(child, make_service())
    move_agent(child, None)
    Agent.objects.filter(pk=root.pk).update(ancestors=None)

    assert (recount(alone.pk, by="ann", reason="R"), ancestors_of(alone)) == (0, None)
    assert (recount(root.pk, by="ann", reason="R"), ancestors_of(root)) == (1, [])


def test_nothing_is_counted_anew_without_a_reason_or_an_agent_or_a_tree_that_can_be(tree):
    with pytest.raises(OperationRefused, match="Say why"):
        recount(tree.root.pk, by="ann", reason=" ")
    with pytest.raises(OperationRefused, match="There is no agent"):
        recount("nobody", by="ann", reason="R")
    tamper(
        "UPDATE policy_policyrevision SET more_json = %s WHERE agent_id = %s",
        write_more(MoreLimits(parent=tree.leaf.pk)),
        tree.root.pk,
    )
    with pytest.raises(OperationRefused, match="cannot be"):
        recount(tree.root.pk, by="ann", reason="R")
