"""Agents that are moved while others move, pay, end holds, archive and change templates: real threads and commits."""

import threading
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from foundation.kernel.assets import Asset
from foundation.kernel.errors import BudgetExceeded, OperationRefused
from ledger.models import Hold, LevelPayment, LogEntry, Result
from ledger.recounting import recount
from payments.deciding.operations import Approval
from payments.holding.finishing import finish_holds
from payments.models import Payment
from payments.settling.transitions import fail
from policy.agent_archive import archive_agent
from policy.limits import Limits, under
from policy.models import Agent, PolicyRevision
from policy.more_limits import MoreLimits
from policy.operations import create_agent, pause_agent, set_policy
from policy.parents import lock_agent
from policy.template_operations import change_template, follow_template, make_template
from tests.payments.deciding.test_trees_at_once import PATIENCE_S, WIDE, ask, elsewhere, make_batcher, sound
from tests.support.factories import decide, make_agent, make_service, new_name
from tests.support.holds import environment_at, hold_of, say
from tests.support.kills import wait_until
from tests.support.level_checks import check_levels
from tests.support.scenes import Scene, at_once, is_waited_for
from tests.support.trees import ancestors_of, counted_at, make_child, make_path, move_agent

pytestmark = [pytest.mark.usefixtures("committed"), pytest.mark.long(60)]
ROUNDS = 8
LIMITS = Limits(Decimal(10), Decimal(1000), Decimal(1000))


def said_of(act: Callable[[], Any]) -> str:
    """Tell why an act was refused; nothing if it was done."""
    try:
        act()
    except OperationRefused as refusal:
        return str(refusal)
    return ""


def until_refused_or_done(act: Callable[[], Any]) -> str:
    """Try again what was refused only because somebody else was at it."""
    while "Try again" in (said := said_of(act)):
        pass
    return said


def assert_is_a_tree(*agents: Agent) -> None:
    """Assert that each agent has the ancestors that the policies of all above it name."""
    for agent in agents:
        path: list[str] = []
        one: str | None = agent.pk
        while (one := parent_of(str(one))) is not None:
            assert one not in path, "a ring"
            path.insert(0, one)
        assert (ancestors_of(agent) or []) == path


def parent_of(agent_id: str) -> str | None:
    number = Agent.objects.values_list("policy_revision", flat=True).get(pk=agent_id)
    return PolicyRevision.objects.get(agent=agent_id, number=number).more.parent


# --- Moves ------------------------------------------------------------------------------------------------------------
def test_of_two_who_move_agents_under_each_other_at_once_one_is_refused():
    for _ in range(ROUNDS):
        one, other = make_agent(), make_agent()

        said = at_once(
            [
                partial(said_of, partial(move_agent, one, other)),
                partial(said_of, partial(move_agent, other, one)),
            ]
        )

        (refused,) = [sentence for sentence in said if sentence]
        assert "is" in refused
        assert "itself or below it" in refused
        assert_is_a_tree(one, other)


def test_many_who_move_the_agents_of_two_trees_at_once_leave_trees():
    agents = [*make_path(3), *make_path(3)]
    moves = [(one, other) for one in agents for other in (*agents[::2], None) if one is not other]

    said = at_once([partial(said_of, partial(move_agent, one, other)) for one, other in moves])

    assert "" in said
    assert_is_a_tree(*agents)


def test_what_names_a_parent_that_was_the_present_one_when_it_began_is_refused_after_a_move():
    old, new = make_agent(), make_agent()
    child = make_child(old)

    def keep_under_old(limits: Limits) -> Limits:
        return under(old.pk, replace(limits, daily_limit=Decimal(7)))

    with transaction.atomic():
        lock_agent(child.pk)
        running = elsewhere(partial(said_of, partial(set_policy, child.pk, change=keep_under_old, by="ann")))
        with pytest.raises(TimeoutError):
            running.result(timeout=1)
        move_agent(child, new)

    assert "Try again" in running.result(timeout=PATIENCE_S)
    assert ancestors_of(child) == [new.pk]


def test_who_is_moved_while_others_pay_is_counted_where_it_was_and_nowhere_else():
    roots = [make_agent(daily_limit="6"), make_agent(daily_limit="6")]
    moved, siblings = make_child(roots[0], **WIDE), [make_child(root, **WIDE) for root in roots]
    below = make_child(moved, **WIDE)
    batchers, service, payers = [make_batcher() for _ in range(2)], make_service(), (moved, below, *siblings, *roots)
    over = threading.Event()

    def go_to_and_fro() -> int:
        count = 0
        while not over.is_set() or count < ROUNDS:
            move_agent(moved, roots[(count + 1) % 2])
            count += 1
        return count

    moving = elsewhere(go_to_and_fro)
    asked = [partial(ask, batcher, agent, service, "0.50") for agent in payers for batcher in batchers * 4]
    try:
        answers = at_once(asked)
    finally:
        over.set()

    assert moving.result(timeout=PATIENCE_S) >= ROUNDS
    assert {type(answer) for answer in answers} <= {Approval, BudgetExceeded}
    for root in roots:
        own = sum(Payment.objects.filter(agent=root).values_list("amount", flat=True), Decimal(0))
        assert sum(counted_at(root), own) <= 6
    assert {tuple(counted_at(root)) for root in roots} != {()}
    assert_is_a_tree(*payers)
    sound(*payers)


# --- With other changes -----------------------------------------------------------------------------------------------
def test_a_template_is_changed_while_those_who_follow_it_pay_and_move():
    template = make_template(new_name("tree"), asset=Asset.USDC, limits=LIMITS, by="ann").name
    root, other, service, batcher = make_agent(**WIDE), make_agent(**WIDE), make_service(), make_batcher()
    children = [make_child(root) for _ in range(3)]
    for agent in (root, *children):
        follow_template(agent.pk, template, by="ann")

    def change(day: int) -> None:
        change_template(template, change=lambda old: replace(old, daily_limit=Decimal(day)), by="ann")

    changes = [partial(until_refused_or_done, partial(change, 900 + number)) for number in range(4)]
    moves = [partial(until_refused_or_done, partial(move_agent, children[0], to)) for to in (other, root, None)]
    asked = [partial(ask, batcher, agent, service) for agent in (root, *children) * 4]
    answers = at_once([*changes, *moves, *asked])

    assert answers[: len(changes) + len(moves)] == [""] * 7
    assert {type(answer) for answer in answers[7:]} == {Approval}
    assert_is_a_tree(root, other, *children)
    sound(root, other, *children)


def test_a_hold_that_ends_while_its_agent_moves_ends_once_and_counts_where_the_log_says():
    for _ in range(ROUNDS):
        old, new, service = make_agent(approval_above=Decimal(5)), make_agent(daily_limit="10"), make_service()
        child = make_child(old)
        held = decide(child, service, "6")
        say(held)

        at_once(
            [
                partial(move_agent, child, new),
                partial(finish_holds, environment_at()),
                partial(finish_holds, environment_at()),
            ]
        )
        finish_holds(environment_at())

        (final,) = LogEntry.objects.filter(agent=child, result=Result.APPROVED)
        level = final.explanation["levels"][0]["agentId"]
        assert (hold_of(held).final_entry_id, level in (old.pk, new.pk)) == (final.id, True)
        assert LevelPayment.objects.get(payment_id=held.payment_id).level_id == level
        assert not Hold.objects.filter(agent=child, ended_at=None).exists()
        sound(child, old, new)


def test_a_hold_whose_agent_moves_while_it_is_waited_for_is_decided_a_second_later_and_nobody_is_alarmed(caplog):
    old, new = make_agent(approval_above=Decimal(5)), make_agent()
    child = make_child(old)
    held = decide(child, make_service(), "6")
    say(held)

    with transaction.atomic():
        lock_agent(old.pk)
        running = elsewhere(partial(finish_holds, environment_at()))
        with pytest.raises(TimeoutError):
            running.result(timeout=1)
        move_agent(child, new)

    assert running.result(timeout=PATIENCE_S) == 0
    assert [record.levelname for record in caplog.records if str(held.payment_id) in record.message] == ["WARNING"]
    assert finish_holds(environment_at()) == 1
    assert counted_at(new) == [6]


@pytest.mark.parametrize("comes", ["moved", "made"])
def test_nobody_comes_under_an_agent_that_is_archived_at_the_same_moment(comes):
    for _ in range(ROUNDS):
        parent, child = make_agent(balance="0"), make_agent()
        pause_agent(parent.pk, by="ann")
        new = f"{parent.pk}-child"
        limits = replace(LIMITS, more=MoreLimits(parent=parent.pk))
        arrive: Callable[[], Any] = partial(create_agent, new, asset=Asset.USDC, limits=limits, by="ann")
        if comes == "moved":
            arrive = partial(move_agent, child, parent)

        archived, came = at_once(
            [partial(said_of, partial(archive_agent, parent.pk, by="ann")), partial(said_of, arrive)]
        )

        assert (archived == "") != (came == "")
        assert archived == "" or "There are agents under" in archived
        assert came == "" or "is archived" in came


def test_what_is_given_back_while_a_level_is_counted_anew_leaves_its_windows():
    root = make_agent()
    payment = Scene(parent=root.pk).pay("6.00")  # on a chain of its own: elsewhere somebody would submit it later

    with transaction.atomic():
        recount(root.pk, by="ann", reason="verify_log said so")
        failing = elsewhere(partial(fail, payment, reason="It never came."))
        wait_until(is_waited_for, "the payment's return waits")

    assert failing.result(timeout=PATIENCE_S) == 1
    assert LevelPayment.objects.get(level=root, payment_id=payment.pk).is_returned
    check_levels([root.pk])


def test_an_agent_that_moves_away_takes_what_waits_along_and_leaves_what_was_paid():
    old, new, service = make_agent(daily_limit="20"), make_agent(daily_limit="20"), make_service()
    child = make_child(old, approval_above=Decimal(5))
    batcher = make_batcher()
    acts = [partial(ask, batcher, child, service, amount) for amount in ("6", "4", "6", "4")]

    at_once([*acts, partial(move_agent, child, new)])

    holds = Hold.objects.filter(agent=child, ended_at=None)
    assert {tuple(hold.ancestors or ()) for hold in holds} == {(new.pk,)}
    assert holds.count() == 2
    assert sorted([*counted_at(old), *counted_at(new)]) == [4, 4]
    check_levels([old.pk, new.pk])


# --- Deadlocks --------------------------------------------------------------------------------------------------------
def look_for_deadlocks_after(seconds: str) -> None:
    """Let this session's waits be the ones that end a deadlock, or not."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('deadlock_timeout', %s, false)", [seconds])


def test_a_move_is_made_when_postgresql_ends_its_wait_for_who_locks_the_tree_in_another_order():
    old, new = sorted((make_agent(), make_agent()), key=lambda agent: agent.pk)
    child = make_child(old)

    def move() -> None:
        look_for_deadlocks_after("5s")  # by then the other one waits, too
        move_agent(child, new)

    with transaction.atomic():
        look_for_deadlocks_after("60s")
        lock_agent(new.pk)
        moving = elsewhere(move)
        wait_until(is_waited_for, "the move waits")
        lock_agent(old.pk)  # the move has this one
        assert not moving.done()

    look_for_deadlocks_after("1s")
    moving.result(PATIENCE_S)
    assert parent_of(child.pk) == new.pk
    assert ancestors_of(child) == [new.pk]
