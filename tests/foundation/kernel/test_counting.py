"""Counters and histograms of one process."""

import threading

import pytest

from foundation.kernel.counting import SUM, Counter, Histogram


def test_a_counter_counts_each_combination_of_labels_by_itself():
    counter = Counter("seen", "What was seen.", ["kind", "state"])
    counter.add("a", "good")
    counter.add("a", "good", by=2)
    counter.add("a", "bad")

    assert counter.take() == {("a", "good"): 3, ("a", "bad"): 1}


def test_what_was_taken_is_not_taken_again_unless_it_is_given_back():
    counter = Counter("seen", "What was seen.")
    counter.add()
    taken = counter.take()
    assert counter.take() == {}

    counter.add()
    counter.give_back(taken)

    assert counter.take() == {(): 2}


@pytest.mark.parametrize(
    ("amount", "bound"), [(0.0, "1.0"), (0.99, "1.0"), (1.0, "1.0"), (1.01, "2.5"), (2.5, "2.5"), (2.51, "+Inf")]
)
def test_a_histogram_counts_what_is_at_most_a_bound(amount, bound):
    histogram = Histogram("took", "How long it took.", ["kind"], bounds=(1, 2.5))
    histogram.observe(amount, "a")

    assert histogram.take() == {(bound, "a"): 1, (SUM, "a"): amount}


def test_threads_lose_nothing():
    counter = Counter("seen", "What was seen.")
    taken: list[float] = []

    def count() -> None:
        for _ in range(2_000):
            counter.add()
            taken.extend(counter.take().values())

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(taken) == 8_000


def test_a_process_that_was_forked_begins_at_nothing():
    counter = Counter("seen", "What was seen.")
    counter.add()

    counter.forget()

    assert counter.take() == {}
