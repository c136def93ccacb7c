"""How the telling goes, as staff and alarms are told."""

import pytest

from foundation.kernel.times import utc_now
from services.models import WebhookEndpoint
from services.webhooks.queries import (
    OVERDUE_AFTER,
    EndpointState,
    in_state,
    read_statuses,
    read_totals,
    state_of,
)
from tests.services.webhooks.told import DAY, HOUR, MINUTE, REFUSED, SECOND, Payee, new_era

pytestmark = pytest.mark.django_db


def disable(payee):
    payee.change_endpoint(disabled_at=payee.at, disabled_reason="A test.", failing_since=payee.at)


BECOME = {
    EndpointState.NEW: lambda payee: payee.hear(),
    EndpointState.WORKING: lambda payee: (payee.hear(), payee.attempt()),
    EndpointState.FAILING: lambda payee: (payee.hear(), payee.attempt(**REFUSED)),
    EndpointState.DISABLED: disable,
    EndpointState.UNSERVED: lambda payee: (disable(payee), payee.change_service(status="disabled")),
}


def status_of(payee):
    (status,) = [status for status in read_statuses() if status.endpoint_id == payee.id]
    return status


# --- One endpoint -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("state", "become"), BECOME.items())
def test_an_endpoint_is_in_one_state_and_found_by_it(state, become):
    payee = Payee()
    become(payee)

    assert state_of(payee.endpoint) == status_of(payee).state == state
    found = [one for one in EndpointState if WebhookEndpoint.objects.filter(in_state(one), pk=payee.id).exists()]
    assert found == [state]


@pytest.mark.parametrize(
    "change", [{"status": "pending_approval"}, {"status": "rejected"}, {"status": "disabled"}, {"webhook_url": None}]
)
def test_an_endpoint_is_unserved_whatever_keeps_its_service_from_being_told(change):
    payee = Payee(works=True)
    payee.change_service(**change)

    assert state_of(payee.endpoint) == EndpointState.UNSERVED
    assert WebhookEndpoint.objects.filter(in_state(EndpointState.UNSERVED), pk=payee.id).exists()


def test_a_status_counts_what_waits_and_what_failed_and_tells_since_when():
    payee, other = Payee(works=True), Payee(works=True)
    events = payee.hear(6)
    other.hear(2, at=payee.at - DAY)
    payee.endpoint.deliveries.filter(pk=events[0]).update(state="delivered", next_attempt_at=None)
    payee.endpoint.deliveries.filter(pk__in=events[1:3]).update(state="failed", next_attempt_at=None)
    # When it is tried next says nothing of how old it is.
    payee.endpoint.deliveries.filter(pk=events[3]).update(next_attempt_at=payee.at + DAY)

    status = status_of(payee)

    assert (status.waiting, status.failed, status.oldest_waiting_at) == (3, 2, payee.at + 3 * SECOND)
    assert (status.url, status.reason) == (payee.url, "")


def test_an_endpoint_that_was_told_nothing_has_noughts():
    status = status_of(Payee())

    assert (status.waiting, status.failed, status.oldest_waiting_at) == (0, 0, None)


def test_a_disabled_endpoint_has_its_reason():
    payee = Payee()
    disable(payee)

    assert status_of(payee).reason == "A test."


def test_those_come_first_that_need_somebody():
    payees = {state: Payee() for state in EndpointState}
    for state, payee in payees.items():
        BECOME[state](payee)
    own = {payee.id for payee in payees.values()}

    states = [status.state for status in read_statuses() if status.endpoint_id in own]

    assert states[:2] == [EndpointState.DISABLED, EndpointState.FAILING]
    assert {*states[2:]} == {EndpointState.UNSERVED, EndpointState.WORKING, EndpointState.NEW}


# --- All --------------------------------------------------------------------------------------------------------------
def test_totals_count_over_all_endpoints():
    before = read_totals(utc_now())
    at = new_era()
    failing, disabled, failed = Payee(at), Payee(at), Payee(at)
    BECOME[EndpointState.FAILING](failing)
    disable(disabled)
    disabled.hear(3)
    failed.hear()
    failed.endpoint.deliveries.update(attempts=9)
    failed.attempt(**REFUSED)

    after = read_totals(utc_now())

    assert (after.waiting - before.waiting, after.failed - before.failed) == (4, 1)
    assert (after.failing - before.failing, after.disabled - before.disabled) == (2, 1)


def overdue(now):
    return read_totals(now).overdue


def test_what_nobody_takes_up_is_overdue():
    payee = Payee()
    payee.hear(3)
    third_at = payee.at + 2 * SECOND

    assert overdue(payee.at + OVERDUE_AFTER - SECOND) == 0
    assert overdue(third_at + OVERDUE_AFTER) == 3


def test_a_slow_endpoint_that_is_being_told_has_nothing_overdue():
    payee = Payee()
    payee.hear(3, at=payee.at - HOUR)
    assert overdue(payee.at) == 3

    payee.claim()

    assert overdue(payee.at + OVERDUE_AFTER - SECOND) == 0
    assert overdue(payee.at + OVERDUE_AFTER) == 3


@pytest.mark.parametrize(
    "obstacle",
    [
        disable,
        lambda payee: payee.change_endpoint(held_until=payee.at + DAY),
        lambda payee: payee.change_service(status="disabled"),
        lambda payee: payee.change_service(webhook_url=None),
        lambda payee: payee.endpoint.deliveries.update(next_attempt_at=payee.at + DAY),
        lambda payee: payee.endpoint.deliveries.update(state="failed", next_attempt_at=None),
    ],
    ids=["disabled", "held", "service disabled", "no URL", "not due", "failed"],
)
def test_what_is_not_to_be_told_now_is_not_overdue(obstacle):
    payee = Payee()
    payee.hear(at=payee.at - HOUR)
    assert overdue(payee.at) == 1

    obstacle(payee)

    assert overdue(payee.at + MINUTE) == 0
