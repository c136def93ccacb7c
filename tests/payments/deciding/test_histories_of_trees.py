"""Random histories of agents in trees, with moves, holds and returns, against a model that sums by brute force."""

import os
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, event
from hypothesis import settings as Settings  # noqa: N812 - pytest-django's is meant by `settings`
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)  # fmt: skip

from foundation.kernel.errors import OperationRefused, PolicySignerUnavailable
from foundation.kernel.times import LARGEST_SKEW
from ledger.models import BalanceMovement, HoldAnswer, LevelPayment, LogEntry
from payments.deciding.operations import decide_together
from payments.deciding.reading import Undecided
from payments.deciding.requests import PaymentRequest
from payments.holding.answering import answer_hold
from payments.holding.finishing import finish_hold
from payments.models import Payment
from payments.reconciling.counted_levels import find_wrong_level
from payments.settling.transitions import fail
from policy.limits import Limits, under
from policy.models import Agent
from policy.more_limits import MoreLimits
from policy.operations import pause_agent, resume_agent, set_policy
from policy.parents import MOST_LEVELS
from policy.rules import rules_in_force
from tests.support.agent_model import AMOUNTS, LIMITS, OPTIONAL, START
from tests.support.factories import make_agent, seen_by
from tests.support.fake_chain import make_fake_chain
from tests.support.level_checks import check_levels
from tests.support.payment_requests import environment_of, make_request, make_service_on
from tests.support.tree_model import ExpectedInTree, History, Node, WaitingInTree

WIDE = Limits(Decimal(10), Decimal(60), Decimal(200))
# Whose parent each agent has at first: a root with a child, a grandchild and another child; another root.
FIRST_PARENTS = (None, 0, 1, 0, None)
WHO = st.integers(0, len(FIRST_PARENTS) - 1)
PAYMENTS = st.tuples(WHO, st.integers(0, 1), AMOUNTS)
STEPS = st.sampled_from(
    [
        *(timedelta(minutes=minutes) for minutes in (0, 1, 59, 60)),
        *(timedelta(hours=hours) for hours in (7, 24, 30)),
        -timedelta(milliseconds=1), -timedelta(hours=3), timedelta(days=7), timedelta(days=30),
    ]
)  # fmt: skip
_BY_PERSON = ExpectedInTree("blocked", "approved_by_person")


class Trees(RuleBasedStateMachine):
    """Five agents that are moved, paused and limited, two payees and a clock."""

    def __init__(self) -> None:
        super().__init__()
        self._undone = transaction.atomic()
        self._undone.__enter__()

    def teardown(self) -> None:
        for result, rule_ in LogEntry.objects.filter(agent__in=self._ids()).values_list("result", "rule"):
            event(f"{result}: {rule_}")
        problems = [one for agent in Agent.objects.filter(pk__in=self._ids()) for one in find_wrong_level(agent)]
        transaction.set_rollback(True)
        self._undone.__exit__(None, None, None)
        assert problems == []

    @initialize(limits=st.lists(OPTIONAL, min_size=2, max_size=2))
    def begin(self, limits: list[MoreLimits]) -> None:
        self.chain = make_fake_chain(relayers=2, has_nonces=True)
        self.services = [make_service_on(self.chain) for _ in range(2)]
        self.now = START
        self.history = History()
        self.agents: list[Agent] = []
        self.nodes: list[Node] = []
        for parent in FIRST_PARENTS:
            above = None if parent is None else self.nodes[parent]
            agent = make_agent(daily_limit="60", weekly_limit="200", parent=above and above.id, balance="150")
            self.agents.append(agent)
            self.nodes.append(Node(agent.pk, WIDE, Decimal(150), START - timedelta(days=365), above))
        for root, more in zip((0, 4), limits, strict=True):
            self.change_policy(root, Decimal(25), Decimal(60), more)

    # --- What must always hold ----------------------------------------------------------------------------------------
    @invariant()
    def every_level_counts_what_it_judged_and_nothing_else(self) -> None:
        for node in self.nodes:
            judged = [one.payment_id for one in self.history.bought if node.id in one.judges and one.payer != node.id]
            rows = LevelPayment.objects.filter(level=node.id).order_by("number")
            assert list(rows.values_list("payment_id", flat=True)) == judged
        check_levels(self._ids())

    @invariant()
    def no_window_of_any_level_was_ever_over_its_limit(self) -> None:
        for node in self.nodes:
            assert self.history.find_overspent(node) == []

    @invariant()
    def balances_and_places_are_those_of_the_model(self) -> None:
        for agent in Agent.objects.filter(pk__in=self._ids()):
            (node,) = [one for one in self.nodes if one.id == agent.pk]
            assert agent.balance == node.balance
            assert (agent.ancestors or []) == [one.id for one in reversed(node.above)]

    def _ids(self) -> list[str]:
        return [node.id for node in self.nodes]

    # --- Payments -----------------------------------------------------------------------------------------------------
    @rule(asked=st.lists(PAYMENTS, min_size=1, max_size=6))
    def pay(self, asked: list[tuple[int, int, Decimal]]) -> None:
        """Ask together; what only another batch can decide is asked for in one of its own, in the same order."""
        waiting = [
            (self.nodes[who], make_request(self.agents[who], self.services[payee], str(amount)))
            for who, payee, amount in asked
        ]
        while waiting:
            with seen_by(self.now, self.chain.name):
                outcomes = decide_together([request for _, request in waiting], self._environment(), wait_s=None)
            assert not isinstance(outcomes[0], Undecided)
            moments = {node.id: self._decided_at(node, [one for one, _ in waiting]) for node, _ in waiting}
            for (node, request), outcome in zip(waiting, outcomes, strict=True):
                if not isinstance(outcome, Undecided):
                    self._see(node, request, outcome, moments[node.id])
            waiting = [one for one, outcome in zip(waiting, outcomes, strict=True) if isinstance(outcome, Undecided)]

    def _decided_at(self, node: Node, batch: list[Node]) -> datetime:
        """Tell the moment of a batch's decisions in the tree of an agent: no earlier than any in it before.

        One that is far ahead takes along those below it alone.
        """
        tree = [one.last_at for other in batch for one in other.path if other.path[-1] is node.path[-1]]
        near = [at for at in tree if at - self.now <= LARGEST_SKEW]
        return max(self.now, *(one.last_at for one in node.path), *near)

    def _see(self, node: Node, request: PaymentRequest, outcome: Any, at: datetime) -> None:
        if at - self.now > LARGEST_SKEW:
            assert isinstance(outcome, PolicySignerUnavailable)
            return
        expected = self.history.judge(node, request, at)
        self._see_decision(outcome, node, request, expected, at)
        if expected.result == "held":
            asking = [
                judge.limits.more for judge in node.path if any(one.holds for one in rules_in_force(judge.limits.more))
            ]
            expires_at = at + min(more.time_to_approve for more in asking)
            self.history.waiting.append(WaitingInTree(node, request, str(outcome.payment_id), at, expires_at))

    def _see_decision(
        self, entry: Any, node: Node, request: PaymentRequest, expected: ExpectedInTree, at: datetime
    ) -> None:
        assert isinstance(entry, LogEntry), entry
        level = entry.explanation.get("level", {}).get("agentId")
        assert ExpectedInTree(entry.result, entry.rule, level) == expected
        assert entry.created_at == at
        node.last_at = at
        if expected.result == "approved":
            self.history.buy(node, request, at, str(entry.payment_id))
            levels = entry.explanation.get("levels", [])
            assert [one["agentId"] for one in levels] == [one.id for one in node.above]

    # --- What a person approves ---------------------------------------------------------------------------------------
    @precondition(lambda self: self.history.waiting)
    @rule(data=st.data(), answer=st.sampled_from([HoldAnswer.APPROVE, HoldAnswer.APPROVE, HoldAnswer.DECLINE]))
    def answer(self, data: st.DataObject, answer: HoldAnswer) -> None:
        one = data.draw(st.sampled_from(self.history.waiting))
        if one.answer is None and self.now < one.expires_at:
            answer_hold(one.payment_id, answer, by="ann", reason="A reason", now=self.now)
            one.answer = answer

    @precondition(lambda self: self.history.waiting)
    @rule()
    def let_a_worker_end_what_can_be_ended(self) -> None:
        for one in [*self.history.waiting]:
            self._finish(one)

    def _finish(self, one: WaitingInTree) -> None:
        at = self._decided_at(one.node, [one.node])
        expected = self._end_of(one, at)
        with seen_by(self.now, self.chain.name):
            if expected is not None and at - self.now > LARGEST_SKEW:
                with pytest.raises(PolicySignerUnavailable):
                    finish_hold(one.payment_id, self._environment())
                return
            final = finish_hold(one.payment_id, self._environment())
        assert (final is None) == (expected is None)
        if expected is not None:
            self.history.waiting.remove(one)
            self._see_decision(final, one.node, one.request, expected, at)

    def _end_of(self, one: WaitingInTree, at: datetime) -> ExpectedInTree | None:
        """Tell how a hold must end; None: it must not."""
        if one.answer == HoldAnswer.APPROVE:
            return self.history.judge(one.node, one.request, at, one)
        is_over = self.now >= one.expires_at or any(judge.is_paused for judge in one.node.path)
        return _BY_PERSON if one.answer == HoldAnswer.DECLINE or is_over else None

    # --- What people change -------------------------------------------------------------------------------------------
    @rule(who=WHO, to=st.none() | WHO)
    def move(self, who: int, to: int | None) -> None:
        node, parent = self.nodes[who], None if to is None else self.nodes[to]
        above = None if parent is None else parent.id
        below = [one for one in self.nodes if node in one.path]
        height = max(len(one.path) for one in below) - len(node.above)
        may_move = parent is None or (node not in parent.path and len(parent.path) + height <= MOST_LEVELS)
        try:
            set_policy(node.id, change=lambda old: under(above, old), by="test")
        except OperationRefused:
            assert not may_move
        else:
            assert may_move
            node.parent = parent

    @rule(who=WHO, daily=LIMITS, weekly=LIMITS, more=OPTIONAL)
    def change_policy(self, who: int, daily: Decimal, weekly: Decimal, more: MoreLimits) -> None:
        limits = Limits(Decimal(10), daily, weekly, None, more)
        self.nodes[who].limits = limits
        set_policy(self.nodes[who].id, change=lambda old: under(old.more.parent, limits), by="test")

    @rule(who=WHO)
    def pause_or_resume(self, who: int) -> None:
        node = self.nodes[who]
        (resume_agent if node.is_paused else pause_agent)(node.id, by="ann")
        node.is_paused = not node.is_paused

    @precondition(lambda self: any(not one.has_failed for one in self.history.bought))
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from([one for one in self.history.bought if not one.has_failed]))
        assert fail(Payment.objects.get(pk=one.payment_id), reason="It cannot be paid", now=self.now) == 1
        one.has_failed = True
        (payer,) = [node for node in self.nodes if node.id == one.payer]
        payer.balance += one.amount
        assert BalanceMovement.objects.filter(payment_id=one.payment_id).count() == 2

    @rule(step=STEPS)
    def let_time_pass(self, step: timedelta) -> None:
        self.now += step

    def _environment(self) -> Any:
        return environment_of(self.chain, self.now)


@pytest.mark.django_db
@pytest.mark.long(30)
def test_no_history_of_trees_overspends_any_level_or_loses_anything():
    run_state_machine_as_test(
        Trees,
        settings=Settings(
            max_examples=30,
            stateful_step_count=30,
            deadline=None,
            derandomize="CI" in os.environ,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
