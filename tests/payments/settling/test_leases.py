"""Duties: one worker at a time, and whoever dies is waited for a while."""

import time
from threading import Barrier

import pytest

from foundation.kernel.times import utc_now
from payments.models import Lease
from payments.settling.leases import TERM, hold
from tests.support.factories import new_name
from tests.support.scenes import at_once


@pytest.fixture
def name(db: None) -> str:
    return new_name("lease")


def test_a_duty_is_held_by_one(name):
    with hold(name) as first, hold(name) as second, hold(f"{name} other") as other:
        assert (first, second, other) == (True, False, True)


def test_a_duty_is_free_again_when_the_work_is_done(name):
    for _ in range(2):
        with hold(name) as is_held:
            assert is_held


def test_a_duty_is_free_again_when_the_work_fails(name):
    with pytest.raises(RuntimeError), hold(name):
        raise RuntimeError
    with hold(name) as is_held:
        assert is_held


def test_whoever_does_not_hold_it_does_not_free_it(name):
    with hold(name):
        with hold(name):
            pass
        with hold(name) as is_held:
            assert not is_held


def test_whoever_holds_it_and_dies_is_waited_for_a_term(name):
    now = utc_now()
    with hold(name):
        until = Lease.objects.get(name=name).held_until
        assert now + TERM <= until <= utc_now() + TERM
        Lease.objects.filter(name=name).update(held_until=utc_now())
        with hold(name) as is_held:
            assert is_held


def test_what_is_held_until_long_after_a_term_was_held_by_a_wrong_clock_and_is_free(name):
    with hold(name):
        Lease.objects.filter(name=name).update(held_until=utc_now() + 100 * TERM)
        with hold(name) as is_held:
            assert is_held
            assert Lease.objects.get(name=name).held_until <= utc_now() + TERM


def test_whoever_took_longer_than_the_term_does_not_free_what_another_holds_by_now(name):
    slow = hold(name)
    assert slow.__enter__()
    Lease.objects.filter(name=name).update(held_until=utc_now())
    time.sleep(0.002)  # leases that end in the same millisecond are one
    with hold(name) as is_held:
        assert is_held
        slow.__exit__(None, None, None)
        with hold(name) as third:
            assert not third


@pytest.mark.usefixtures("committed")
def test_of_several_workers_at_once_one_holds_it():
    name = new_name("lease")
    everybody_tried = Barrier(4)

    def work() -> bool:
        with hold(name) as is_held:
            everybody_tried.wait(timeout=60)
            return is_held

    assert sorted(at_once([work] * 4)) == [False, False, False, True]
