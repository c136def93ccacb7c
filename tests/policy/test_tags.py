"""Tags as text: the names of groups of payees."""

import pytest

from policy.tags import MOST_ALLOWED, MOST_TAGS, check_tags, parse_allowed_tags, parse_tags, write_tags

LONGEST = "a" * 32


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("", ()),
        ("data", ("data",)),
        ("data,compute", ("compute", "data")),
        (" data , compute ,, data ", ("compute", "data")),
        ("a-1-b", ("a-1-b",)),
        (LONGEST, (LONGEST,)),
    ],
)
def test_tags_are_read_each_once_and_in_their_order(text, tags):
    assert parse_tags(text) == tags
    assert parse_tags(write_tags(tags)) == tags


@pytest.mark.parametrize("text", ["Data", "1data", "-data", "da ta", "da_ta", "däta", "data;x", "none", LONGEST + "a"])
def test_what_is_no_tag_is_refused(text):
    with pytest.raises(ValueError, match="Must be tags such as"):
        parse_tags(text)


def test_a_payee_has_a_few_tags_and_a_policy_some_more():
    many = [f"t{number}" for number in range(MOST_ALLOWED + 1)]

    assert len(check_tags(many[:MOST_TAGS])) == MOST_TAGS
    with pytest.raises(ValueError, match="at most 10 tags"):
        check_tags(many[: MOST_TAGS + 1])
    assert len(parse_allowed_tags(",".join(many[:MOST_ALLOWED]))) == MOST_ALLOWED
    with pytest.raises(ValueError, match="at most 20 tags"):
        parse_allowed_tags(",".join(many))


def test_a_policy_that_allows_tags_allows_at_least_one():
    with pytest.raises(ValueError, match="at least one"):
        parse_allowed_tags(" , ")
