"""The benchmark's own arithmetic."""

import pytest

from tests.benchmarks.figures import figure, percentile, ratio, slope, slow_down
from tests.benchmarks.report import Row, find_unsteady, report, show


def test_a_figure_has_the_median_and_the_smallest_and_largest_of_its_turns():
    found = figure([3, 1, 2], "ms", connections=8)

    assert (found["median"], found["spread"], found["unit"]) == (2, [1, 3], "ms")
    assert found["details"] == {"connections": 8}


def test_a_ratio_divides_turn_by_turn():
    # The machine was half as fast in the second turn: that is in both sides of it.
    assert ratio([100, 50, 120], [200, 100, 200])["values"] == [0.5, 0.5, 0.6]


def test_turns_without_their_other_side_have_no_ratio():
    with pytest.raises(ValueError, match="zip"):
        ratio([1, 2], [1])


def test_a_slow_down_is_what_is_missing_in_per_cent():
    assert slow_down([95, 110], [100, 100])["values"] == [5, -10]


@pytest.mark.parametrize(("per_cent", "value"), [(50, 50), (99, 99), (100, 100), (0.5, 1)])
def test_a_percentile_is_the_value_that_so_many_per_cent_do_not_exceed(per_cent, value):
    assert percentile(range(100, 0, -1), per_cent) == value


def test_a_single_value_is_every_percentile():
    assert percentile([7.0], 99) == 7


def test_a_slope_is_the_rise_per_unit():
    assert slope([(0, 150), (0.5, 151), (1, 152)]) == pytest.approx(2)


@pytest.mark.parametrize(
    ("row", "value", "is_reached"),
    [
        (Row("", 0.4), 0.4, True),
        (Row("", 0.4), 0.39, False),
        (Row("", 2.5, is_less_better=True), 2.5, True),
        (Row("", 2.5, is_less_better=True), 2.51, False),
        (Row(""), 1, None),
    ],
)
def test_a_promise_is_kept_at_its_limit(row, value, is_reached):
    assert row.is_reached(value) is is_reached


@pytest.mark.parametrize(("value", "text"), [(0.4021, "0.40"), (12.34, "12.3"), (2345.6, "2346"), (-3.2, "-3.20")])
def test_numbers_show_three_digits_that_matter(value, text):
    assert show(value) == text


def test_the_report_shows_what_was_measured_and_what_explains_it():
    side = {"per_second": figure([437]), "processor_ms": {"web": 1.9}}
    outcome = {
        "commit": "0123456789abcdef",
        "is_changed": False,
        "took_s": 60,
        "machine": {"cores": 2, "python": "3.12.1"},
        "options": {"rounds": 1},
        "failed": ["tests.benchmarks.webhooks failed: why"],
        "figures": {
            "http_of_pgbench_8": ratio(
                [437], [3106], **side, alone_8={"per_second": figure([3106]), "processor_ms": {}}
            ),
            "what_nobody_promised": figure([1.0]),
            "interpreter": {"samples": 10, "rooms": {"django": 60.0}, "functions": {}},
        },
    }

    text = report(outcome)

    assert "Commit 0123456789ab, 2 cores" in text
    assert "✗ tests.benchmarks.webhooks failed: why" in text
    assert "0.14       0.14 to 0.14     0.4     0.55  ✗" in text
    assert "437/s; processor ms each: web 1.900" in text
    assert "3106/s" in text
    assert "what_nobody_promised" in text
    assert "60.0  django" in text


@pytest.mark.parametrize(
    ("turns", "is_unsteady"), [([0.91, 1, 1.09], False), ([0.89, 1, 1], True), ([1, 1, 1.11], True)]
)
def test_a_ratio_whose_turns_lie_further_apart_than_a_tenth_of_its_median_is_named(turns, is_unsteady):
    found = {"http_of_plain_8": figure(turns), "lone_p50": figure([1, 9], "ms")}

    assert len(list(find_unsteady(found))) == is_unsteady
