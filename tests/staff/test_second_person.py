"""A change that two people make: one asks, another confirms, once, what the first one was shown."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.db import IntegrityError, connection, transaction

from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from staff.change_requests import find_waiting
from staff.models import AuditEntry, ChangeRequest
from staff.second_person import confirm, propose, refuse
from tests.staff.people import PERMISSION, Switch, make_user, registered


@pytest.fixture
def switch(db: None, settings: Any) -> Any:
    settings.FOUR_EYES = True
    with registered() as one:
        yield one


@pytest.fixture
def ann(db: None) -> User:
    return make_user(PERMISSION)


@pytest.fixture
def bea(db: None) -> User:
    return make_user(PERMISSION)


def ask(switch: Switch, by: User, **arguments: Any) -> ChangeRequest:
    request = propose(switch.proposal(**arguments), by=by).request
    assert request is not None
    return request


def actions(switch: Switch) -> list[tuple[str, str, str]]:
    entries = AuditEntry.objects.filter(subject=switch.kind.name).order_by("id")
    return list(entries.values_list("action", "author", "confirmed_by"))


# --- Asked ------------------------------------------------------------------------------------------------------------
def test_nothing_happens_before_a_second_person_confirms(switch, ann, bea):
    request = ask(switch, ann, number=1)
    assert (switch.made, [one.pk for one in find_waiting()]) == ([], [request.pk])

    outcome = confirm(request.pk, by=bea)

    assert outcome.message == "Turned the switch."
    assert switch.made == [({"number": 1}, ann.username, "R")]
    assert actions(switch) == [("switch.turned", ann.username, bea.username)]
    assert find_waiting() == []


def test_the_request_and_its_confirmation_are_in_the_audit(switch, ann, bea):
    request = ask(switch, ann)
    confirm(request.pk, by=bea)

    entries = AuditEntry.objects.filter(subject_type="request", subject=str(request.pk)).order_by("id")
    assert [(one.action, one.author) for one in entries] == [
        ("request.asked", ann.username),
        ("request.confirmed", bea.username),
    ]


@pytest.mark.parametrize(("four_eyes", "needs_second"), [(False, True), (True, False), (False, False)])
def test_one_person_is_enough_where_no_second_is_needed(switch, ann, settings, four_eyes, needs_second):
    settings.FOUR_EYES = four_eyes

    outcome = propose(switch.proposal(), by=ann, needs_second=needs_second)

    assert (outcome.message, outcome.request) == ("Turned the switch.", None)
    assert actions(switch) == [("switch.turned", ann.username, "")]


@pytest.mark.parametrize("reason", ["", "  \n"])
def test_nobody_asks_without_a_reason(switch, ann, reason):
    with pytest.raises(OperationRefused, match="Give a reason"):
        propose(switch.proposal(reason), by=ann)


def test_the_same_is_asked_for_once_while_it_waits(switch, ann, bea):
    request = ask(switch, ann, number=1)

    with pytest.raises(OperationRefused, match=f"{ann.username} asked for this already"):
        ask(switch, bea, number=1)
    ask(switch, bea, number=2)
    refuse(request.pk, by=bea, reason="No")
    ask(switch, bea, number=1)


def test_what_is_rehearsed_is_refused_when_it_is_asked_for_and_leaves_nothing(switch, ann, db):
    with registered(is_rehearsed=True) as second:
        second.refusal = "It cannot be turned."
        with pytest.raises(OperationRefused, match="cannot be turned"):
            ask(second, ann)
        second.refusal = ""
        request = ask(second, ann)

    assert actions(second) == []
    assert ChangeRequest.objects.filter(kind=second.kind.name).get() == request


@pytest.mark.parametrize("is_rehearsed", [False, True])
def test_it_is_checked_under_no_lock_when_it_is_asked_for_and_when_it_is_confirmed(settings, ann, bea, is_rehearsed):
    settings.FOUR_EYES = True
    outside = len(connection.savepoint_ids)
    with registered(is_rehearsed=is_rehearsed) as switch:
        request = ask(switch, ann, number=1)
        assert switch.checked == [({"number": 1}, outside)]
        confirm(request.pk, by=bea)
        assert switch.checked == [({"number": 1}, outside)] * 2
        propose(switch.proposal(number=2), by=ann, needs_second=False)
        assert switch.checked[2:] == [({"number": 2}, outside)]


def test_what_its_check_objects_to_is_neither_asked_for_nor_done_nor_confirmed(switch, ann, bea):
    request = ask(switch, ann, number=1)
    switch.objection = "No node answers."

    for by_two in (True, False):
        with pytest.raises(OperationRefused, match="No node answers"):
            propose(switch.proposal(number=2), by=ann, needs_second=by_two)
    with pytest.raises(OperationRefused, match="No node answers"):
        confirm(request.pk, by=bea)
    assert (switch.made, [one.pk for one in find_waiting()]) == ([], [request.pk])
    switch.objection = ""
    assert confirm(request.pk, by=bea).message == "Turned the switch."


def test_nothing_is_checked_for_who_may_not_confirm(switch, ann):
    request = ask(switch, ann)
    switch.checked.clear()

    with pytest.raises(OperationRefused, match="somebody else"):
        confirm(request.pk, by=ann)
    assert switch.checked == []


# --- Who --------------------------------------------------------------------------------------------------------------
def test_nobody_confirms_what_they_asked_for(switch, ann):
    request = ask(switch, ann)

    with pytest.raises(OperationRefused, match="somebody else has to confirm it"):
        confirm(request.pk, by=ann)
    with pytest.raises(IntegrityError, match="request_confirmed_by_another"), transaction.atomic():
        ChangeRequest.objects.filter(pk=request.pk).update(state="confirmed", decided_by=ann.username)

    assert switch.made == []


@pytest.mark.parametrize("flags", [{"is_active": False}, {"is_staff": False}])
def test_who_left_neither_asks_nor_confirms(switch, ann, flags):
    request = ask(switch, ann)
    gone = make_user(PERMISSION, **flags)

    for act in (lambda: ask(switch, gone, number=2), lambda: confirm(request.pk, by=gone)):
        with pytest.raises(OperationRefused, match="may not do this"):
            act()


def test_nobody_without_the_permission_asks_confirms_or_refuses(switch, ann):
    request = ask(switch, ann)
    for other in (make_user("policy.change_agent"), AnonymousUser()):
        for act in (
            lambda other=other: propose(switch.proposal(number=2), by=other),
            lambda other=other: confirm(request.pk, by=other),
            lambda other=other: refuse(request.pk, by=other, reason="No"),
        ):
            with pytest.raises(OperationRefused, match="may not do this"):
                act()

    assert [one.pk for one in find_waiting()] == [request.pk]


@pytest.mark.parametrize("loss", ["permission", "account", "staff status", "deleted"])
def test_what_was_asked_by_somebody_who_may_not_ask_any_more_is_not_confirmed(switch, ann, bea, loss):
    request = ask(switch, ann)
    if loss == "permission":
        ann.user_permissions.clear()
    elif loss == "deleted":
        ann.delete()
    else:
        User.objects.filter(pk=ann.pk).update(**{"is_active" if loss == "account" else "is_staff": False})

    with pytest.raises(OperationRefused, match="may not do this"):
        confirm(request.pk, by=bea)

    assert switch.made == []
    assert refuse(request.pk, by=bea, reason="Gone").state == "refused"


def test_who_lost_the_permission_since_the_page_was_shown_does_not_confirm(switch, ann, bea):
    request = ask(switch, ann)
    assert bea.has_perm(PERMISSION)  # Django remembers what it has read
    User.objects.get(pk=bea.pk).user_permissions.clear()

    with pytest.raises(OperationRefused, match="may not do this"):
        confirm(request.pk, by=bea)


# --- Ends -------------------------------------------------------------------------------------------------------------
def test_a_request_is_confirmed_once(switch, ann, bea):
    request = ask(switch, ann)
    confirm(request.pk, by=bea)

    for act in (lambda: confirm(request.pk, by=bea), lambda: refuse(request.pk, by=bea, reason="No")):
        with pytest.raises(OperationRefused, match="was confirmed already"):
            act()
    assert len(switch.made) == 1


def test_what_the_operation_refuses_leaves_nothing_and_goes_on_waiting(switch, ann, bea):
    request = ask(switch, ann)
    switch.refusal = "Not now."

    with pytest.raises(OperationRefused, match="Not now"):
        confirm(request.pk, by=bea)

    assert actions(switch) == []
    assert not AuditEntry.objects.filter(action="request.confirmed", subject=str(request.pk)).exists()
    request.refresh_from_db()
    assert (request.state, request.decided_by) == ("waiting", "")
    switch.refusal = ""
    confirm(request.pk, by=bea)
    assert len(switch.made) == 1


def test_a_request_expires(switch, ann, bea):
    request = ask(switch, ann)
    assert request.expires_at - request.asked_at == timedelta(days=3)
    ChangeRequest.objects.filter(pk=request.pk).update(expires_at=utc_now())
    request.refresh_from_db()

    assert find_waiting() == []
    assert request.state_at(utc_now()) == "expired"
    for act in (lambda: confirm(request.pk, by=bea), lambda: refuse(request.pk, by=ann, reason="")):
        with pytest.raises(OperationRefused, match="has expired"):
            act()
    ask(switch, ann)


def test_a_second_person_refuses_with_a_reason_and_the_author_takes_back_without(switch, ann, bea):
    refused, own = ask(switch, ann, number=1), ask(switch, ann, number=2)
    with pytest.raises(OperationRefused, match="Give a reason"):
        refuse(refused.pk, by=bea, reason=" ")
    ann.user_permissions.clear()  # one's own can be taken back all the same

    assert refuse(refused.pk, by=bea, reason="Too much").answer == "Too much"
    assert refuse(own.pk, by=ann, reason="").state == "taken_back"
    assert switch.made == []


def test_there_is_nothing_to_confirm_where_there_is_no_request(switch, bea):
    with pytest.raises(OperationRefused, match="no such request"):
        confirm(999_999_999, by=bea)
