"""What differs between two texts, marked and in a sentence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.differences import Run, compare

texts = st.text("abcdefg", max_size=30)


def marked(runs):
    return "".join(f"[{run.text}]" if run.is_changed else run.text for run in runs)


@pytest.mark.parametrize(
    ("old", "new", "left", "right", "sentence"),
    [
        ("same", "same", "same", "same", ""),
        ("abcd", "abxy", "ab[cd]", "ab[xy]",
         "2 of 4 characters differ: character 3 was “c”, is “x”; character 4 was “d”, is “y”."),
        ("abcd", "xbcd", "[a]bcd", "[x]bcd", "1 of 4 characters differs: character 1 was “a”, is “x”."),
        ("aaaaaaa", "bbbbbbb", "[aaaaaaa]", "[bbbbbbb]", "7 of 7 characters differ."),
        ("shop.example", "shop1.example", "shop.example", "shop[1].example",
         "13 characters instead of 12: 1 new."),
        ("a b", "c", "[a b]", "[c]", "1 characters instead of 3: 3 gone and 1 new."),
        ("", "new", "", "[new]", "3 characters instead of 0: 3 new."),
    ],
)  # fmt: skip
def test_what_changed_is_marked_on_both_sides_and_named(old, new, left, right, sentence):
    difference = compare(old, new)

    assert (marked(difference.old), marked(difference.new), difference.sentence) == (left, right, sentence)


def test_the_case_of_an_evm_address_is_a_checksum_and_no_difference():
    difference = compare("0xABcd", "0xabCE", ignores_case=True)

    assert difference.new == (Run("0xabC", is_changed=False), Run("E", is_changed=True))


@given(texts, texts)
def test_the_runs_are_the_texts_and_what_is_not_marked_is_in_both(old, new):
    difference = compare(old, new)

    assert ("".join(run.text for run in difference.old), "".join(run.text for run in difference.new)) == (old, new)
    kept = ["".join(run.text for run in runs if not run.is_changed) for runs in (difference.old, difference.new)]
    assert kept[0] == kept[1]
    assert (difference.sentence == "") == (old == new)
