"""Two people at once: with real threads and real transactions."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from ledger.models import BalanceMovement
from ledger.movements import find_newest_by_hand
from payments.proposals import ADJUST
from policy.limits import Limits
from policy.models import Agent
from policy.proposals import propose_agent
from staff.audit import record
from staff.independence import lock_accounts
from staff.models import AuditEntry, ChangeRequest
from staff.people import make_account
from staff.second_person import Proposal, confirm, propose, refuse
from tests.staff.people import PERMISSION, Switch, make_user, registered
from tests.support.factories import make_agent, new_name
from tests.support.local_ids import LOCALNET

MOVE = "ledger.add_balancemovement"


@pytest.fixture
def switch(committed: None, settings: Any) -> Iterator[Switch]:
    settings.FOUR_EYES = True
    with registered() as one:
        yield one


def at_once(*acts: Callable[[], Any]) -> list[str]:
    """Let each act in a thread of its own; return what each came to."""
    together = threading.Barrier(len(acts), timeout=30)

    def run(act: Callable[[], Any]) -> str:
        try:
            together.wait()
            act()
        except OperationRefused as refusal:
            return str(refusal)
        finally:
            connection.close()
        return "done"

    with ThreadPoolExecutor(len(acts)) as threads:
        return sorted(threads.map(run, acts))


def test_of_accounts_that_are_made_at_once_for_one_address_there_is_one(committed):
    address = f"{new_name('ann')}@example.com"
    names = [new_name("account") for _ in range(4)]

    def make(name: str) -> User:
        return make_account(name, name="Ann", email=address, roles=["Auditor"], by="ada")

    said = at_once(*(lambda name=name: make(name) for name in names))

    assert said == [f"There is an account with the address {address} already."] * 3 + ["done"]
    assert User.objects.filter(email=address).count() == 1


def test_of_many_who_confirm_at_once_one_makes_the_change(switch):
    ann, others = make_user(PERMISSION), [make_user(PERMISSION) for _ in range(6)]
    request = propose(switch.proposal(), by=ann).request
    assert request is not None

    said = at_once(*(lambda other=other: confirm(request.pk, by=other) for other in others))

    assert said == ["This request was confirmed already."] * 5 + ["done"]
    assert len(switch.made) == 1
    assert AuditEntry.objects.filter(subject=switch.kind.name).count() == 1


def test_of_agents_that_one_person_each_makes_at_once_as_many_are_made_as_fit_below_the_threshold(committed, settings):
    settings.FOUR_EYES, settings.FOUR_EYES_ABOVE = True, {Asset.PYUSD: Decimal(100)}
    rights, names = "policy.add_agent", [new_name("agent") for _ in range(4)]
    people, each = [make_user(rights) for _ in names], Limits(Decimal(0), Decimal(0), Decimal(60))

    def make(name: str, by: User) -> None:
        propose_agent(name, Asset.PYUSD, each, shown=[], reason="R", by=by)

    said = at_once(*(lambda one=one: make(*one) for one in zip(names, people, strict=True)))

    assert said == ["done"] * 4
    assert Agent.objects.filter(pk__in=names).count() == 1
    assert ChangeRequest.objects.filter(subject__in=names).count() == 3


def test_a_confirmation_and_a_refusal_at_once_end_in_one_of_them(switch):
    ann, bea, cleo = (make_user(PERMISSION) for _ in range(3))
    for _ in range(10):
        before = len(switch.made)
        request = propose(switch.proposal(), by=ann).request
        assert request is not None

        said = at_once(
            lambda pk=request.pk: confirm(pk, by=bea),  # type: ignore[misc]
            lambda pk=request.pk: refuse(pk, by=cleo, reason="No"),  # type: ignore[misc]
            lambda pk=request.pk: refuse(pk, by=ann, reason=""),  # type: ignore[misc]
        )

        request.refresh_from_db()
        assert said.count("done") == 1
        assert len(switch.made) - before == (request.state == "confirmed")


def test_two_requests_that_rely_on_the_same_balance_are_not_both_made(switch):
    ann, bea, cleo = (make_user(MOVE) for _ in range(3))
    agent = make_agent(balance="10")
    newest = find_newest_by_hand(agent.id)
    requests = []
    for amount in ("-6.00", "-7.00"):
        arguments = {"agent": agent.id, "amount": amount, "chain": LOCALNET, "after": newest}
        outcome = propose(Proposal(ADJUST, "agent", agent.id, arguments, [("Amount", amount)], "R"), by=ann)
        assert outcome.request is not None
        requests.append(outcome.request.pk)

    said = at_once(lambda: confirm(requests[0], by=bea), lambda: confirm(requests[1], by=cleo))

    assert said[0].startswith("Another movement of") or said[1] == "done"
    assert said.count("done") == 1
    assert Agent.objects.get(pk=agent.pk).balance in (3, 4)
    assert ChangeRequest.objects.filter(pk__in=requests, state="waiting").count() == 1
    assert BalanceMovement.objects.filter(agent=agent).count() == 2


def test_who_is_taken_in_hand_while_a_confirmation_waits_is_no_second_person(switch):
    ann, bea = make_user(PERMISSION), make_user(PERMISSION)
    request = propose(switch.proposal(), by=ann).request
    assert request is not None
    held, go_on = threading.Event(), threading.Event()

    def hold_and_take() -> None:
        with transaction.atomic():
            lock_accounts()
            held.set()
            assert go_on.wait(30)
            record("person.link_made", subject_type="person", subject=ann.username, by=bea.username)
        connection.close()

    with ThreadPoolExecutor(2) as threads:
        holder = threads.submit(hold_and_take)
        assert held.wait(30)
        confirmer = threads.submit(at_once, lambda: confirm(request.pk, by=bea))
        go_on.set()
        holder.result(30)

        assert "are not independent" in confirmer.result(30)[0]
    assert switch.made == []


def test_who_is_deactivated_while_a_confirmation_waits_is_seen(switch):
    ann, bea = make_user(PERMISSION), make_user(PERMISSION)
    request = propose(switch.proposal(), by=ann).request
    assert request is not None
    held, go_on = threading.Event(), threading.Event()

    def hold_and_deactivate() -> None:
        with transaction.atomic():
            ChangeRequest.objects.select_for_update().get(pk=request.pk)
            held.set()
            assert go_on.wait(30)
            User.objects.filter(pk=ann.pk).update(is_active=False)
        connection.close()

    def confirm_it() -> str:
        try:
            confirm(request.pk, by=bea)
        except OperationRefused as refusal:
            return str(refusal)
        finally:
            connection.close()
        return "done"

    with ThreadPoolExecutor(2) as threads:
        holder = threads.submit(hold_and_deactivate)
        assert held.wait(30)
        confirmer = threads.submit(confirm_it)
        go_on.set()
        holder.result(30)

        assert "may not do this" in confirmer.result(30)
    assert switch.made == []
