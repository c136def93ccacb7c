"""Scenarios of budgets within budgets: children of one root at once, moved, and with a root that changes."""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from functools import partial

from django.db import connection

from foundation.kernel.times import utc_now
from policy.limits import under
from policy.operations import pause_agent, resume_agent, set_policy
from policy.parents import find_below
from tests.overspend.answers import APPROVED
from tests.overspend.evidence import Kind
from tests.overspend.people import People
from tests.overspend.stage import Payer, Stage

_THRESHOLD = Decimal("0.99")
_FIRST = 15
_PAUSE_S = 0.05
_LEAST = "0.01"


def child_of(stage: Stage, parent: Payer, *others: Payer) -> Payer:
    """Make an agent under another one, with limits that let more pass than all roots that it is ever under together."""
    allowed = sum((one.account.limits[0].day for one in (parent, *others)), Decimal(0))
    child = stage.payer(day="1000", parent=parent.account.agent)
    child.account.is_within_others = True
    child.account.limits[0] = replace(child.account.limits[0], day=allowed, week=allowed)
    return child


def siblings(stage: Stage) -> None:
    """Let a root, its children and a grandchild, all with wide limits, ask for more than the narrow root allows."""
    payers: list[Payer] = []
    for _ in range(stage.world.size(4, 1)):
        root = stage.payer(day="12.34", wanted="12.21")
        children = [child_of(stage, root) for _ in range(4)]
        payers += [root, *children, child_of(stage, children[0])]
    stage.strike([payer.shot("0.37") for payer in payers for _ in range(stage.world.size(40, 16))])
    stage.insist()
    stage.repeat(stage.world.size(100, 20))


def children_moved(stage: Stage) -> None:
    """Move a child with what is below it between two roots, to and fro, while all of both trees pay."""
    roots = [stage.payer(day=str(stage.world.size(60, 20)), wanted=str(stage.world.size(60, 20))) for _ in range(2)]
    moved = child_of(stage, *roots)
    payers = [*roots, *(child_of(stage, root) for root in roots), moved, _grandchild(stage, moved)]
    with _to_and_fro(stage, moved, roots):
        shots = [payer.shot("0.50") for payer in payers for _ in range(stage.world.size(60, 24))]
        stage.strike(shots)
        stage.insist()
    # What is left fits now, wherever the child is: more than that is asked for.
    stage.strike([payer.shot("0.50") for payer in payers[2:4] for _ in range(stage.world.size(120, 40))])
    stage.insist()
    stage.repeat(stage.world.size(60, 12))


def _grandchild(stage: Stage, moved: Payer) -> Payer:
    child = child_of(stage, moved)
    moved.account.limits[0] = replace(moved.account.limits[0], day=2 * moved.account.limits[0].day)
    return child


@contextmanager
def _to_and_fro(stage: Stage, moved: Payer, roots: list[Payer]) -> Iterator[None]:
    """Move a child all the while, out of all trees as well."""
    over, failures, moves = threading.Event(), list[BaseException](), 0
    places = [roots[1].account.agent, None, roots[0].account.agent]

    def move() -> None:
        nonlocal moves
        try:
            while not over.wait(_PAUSE_S):
                place = places[moves % len(places)]
                set_policy(moved.account.agent, change=partial(under, place), by="overspend test")
                moves += 1
        except Exception as error:  # noqa: BLE001 - whoever waits for the thread is told
            failures.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    for failure in failures:
        stage.complain(Kind.UNFIT, f"The child could not be moved: {failure!r}")
    stage.expect(moves >= 2 * len(places), "The child was hardly moved.")


def roots_changed(stage: Stage) -> None:
    """Pause a root in mid-storm, resume it, then lower its limit to less than is spent, while its children pay."""
    for _ in range(stage.world.size(3, 1)):
        count = stage.world.size(300, 200)
        root = stage.payer(day=str(count))
        payers = [root, *(child_of(stage, root) for _ in range(4))]
        _in_mid_storm(stage, payers, count, _pause)
        refused = stage.strike([payer.shot(_LEAST) for payer in payers for _ in range(4)])
        stage.expect(all(answer.status != APPROVED for answer in refused), "What is below a paused root pays.")
        root.allow(day=str(count), since=utc_now())
        resume_agent(root.account.agent, by="ann")
        _in_mid_storm(stage, payers, count, _lower)
        for payer in payers:
            payer.close()
        later = stage.strike([payer.shot(_LEAST) for payer in payers for _ in range(4)])
        stage.expect(all(answer.status != APPROVED for answer in later), "More is paid than a lowered root allows.")
    stage.insist()


def _in_mid_storm(stage: Stage, payers: list[Payer], count: int, change: Callable[[Payer], None]) -> None:
    """Let all of a tree pay, the root first among them, and change the root when there are some answers."""
    storm = stage.storm([payer.shot(_LEAST) for payer in payers for _ in range(count // len(payers))])
    before = list(itertools.islice(storm, _FIRST))
    change(payers[0])
    rest = list(storm)
    stage.expect(sum(answer.status == APPROVED for answer in before) > 1, "Nothing was spent before.")
    stage.expect(any(answer.status != APPROVED for answer in rest), "The storm was over too early.")


def _pause(root: Payer) -> None:
    pause_agent(root.account.agent, by="ann")
    root.allow(day="0", since=utc_now())


def _lower(root: Payer) -> None:
    least = Decimal(_LEAST)
    set_policy(root.account.agent, change=lambda limits: replace(limits, daily_limit=least), by="overspend test")
    root.allow(day=_LEAST, since=utc_now())


def held_by_a_root(stage: Stage) -> None:
    """Ask for more than fits under a root that has a person approve each payment, while people answer."""
    payers: list[Payer] = []
    for _ in range(stage.world.size(3, 1)):
        root = stage.payer(day="9.99", approval_above=_THRESHOLD)
        root.account.asks_above = _THRESHOLD
        payers += [root, *(child_of(stage, root) for _ in range(3))]
    with People([payer.account.agent for payer in payers], stage.chance) as people:
        stage.strike([payer.shot() for payer in payers for _ in range(stage.world.size(20, 8))])
        stage.insist()
        stage.repeat(stage.world.size(60, 12))
    for failure in people.failures:
        stage.complain(Kind.UNFIT, f"Somebody could not go on: {failure!r}")
    below = [agent.pk for payer in payers for agent in find_below(payer.account.agent)]
    answered = [told for told in stage.told if told.is_held and told.agent in below]
    stage.expect(answered and people.answers, "Nothing of a child was held and answered.")
