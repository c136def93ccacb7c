"""The rule itself: who has whose account in hand, who is independent of whom, and who acts alone."""

from datetime import UTC, datetime, timedelta

import pytest

from staff.hands import LINK, MADE, SENT, Act, Hands

NOW = datetime(2026, 11, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
ROLES = "person.roles_changed"
COMMAND = "command line"


def act(action, account, author, second="", at=NOW - 9 * HOUR, *, is_of_decider=False):
    return Act(action, account, author, second, at, is_of_decider)


def holders(account, *acts, since=NOW):
    return sorted(Hands(acts).holders_of(account, since=since))


def independent(one, other, *acts, since=NOW):
    hands = Hands(acts)
    assert hands.are_independent(one, other, since=since) == hands.are_independent(other, one, since=since)
    return hands.are_independent(one, other, since=since)


@pytest.mark.parametrize("action", [MADE, LINK, ROLES, "person.second_factor_reset", "person.activated"])
def test_what_one_does_alone_puts_an_account_into_their_hand_and_what_two_do_does_not(action):
    assert holders("ann", act(action, "ann", "mo")) == ["mo"]
    assert holders("ann", act(action, "ann", "mo", "hal")) == []
    assert holders("ann", act(action, "ann", COMMAND)) == []
    assert holders("ann", act("person.deactivated", "ann", "mo")) == []


def test_hands_reach_through_hands():
    chain = (act(MADE, "bo", "ann"), act(LINK, "ann", "mo"), act(LINK, "mo", "zoe"))

    assert holders("bo", *chain) == ["ann", "mo", "zoe"]
    assert holders("ann", *chain) == ["mo", "zoe"]


def test_two_accounts_in_one_hand_are_no_two_people_whatever_they_do_together():
    puppets = (act(MADE, "a", "mo"), act(MADE, "b", "mo"))

    assert not independent("a", "b", *puppets)
    assert holders("c", *puppets, act(MADE, "c", "a", "b")) == ["mo"]
    assert holders("c", *puppets, act(MADE, "c", "a", "hal")) == []


def test_those_whose_accounts_nobody_has_both_in_hand_are_independent():
    made_by_two = (act(MADE, "a", "mo", "hal"), act(MADE, "b", "mo", "hal"))

    assert independent("a", "b", *made_by_two)
    assert independent("mo", "hal", *made_by_two)
    assert independent("a", "b", act(MADE, "a", "mo"), act(MADE, "b", "hal"))


def test_whoever_had_a_part_in_an_account_is_never_its_second_person():
    by_two = act(MADE, "ann", "mo", "hal")

    assert not independent("mo", "ann", by_two)
    assert not independent("hal", "ann", by_two)
    assert independent("zoe", "ann", by_two)
    # Nor is an account that they have in hand.
    assert not independent("puppet", "ann", by_two, act(LINK, "puppet", "mo"))


@pytest.mark.parametrize("how", [(LINK, "zoe"), (SENT, "")])
def test_a_link_that_no_administrator_can_open_ends_hands(how):
    action, second = how
    in_hand = [act(MADE, name, "hal", "zoe") for name in ("ann", "bo")] + [
        act(LINK, name, "mo") for name in ("ann", "bo")
    ]
    renewals = [act(action, name, "hal", second) for name in ("ann", "bo")]

    assert not independent("ann", "bo", *in_hand)
    assert holders("ann", *in_hand, renewals[0]) == []
    assert holders("bo", *in_hand, renewals[0]) == ["mo"]
    # Mo, who could still use the one, had a part in the other.
    assert not independent("ann", "bo", *in_hand, renewals[0])
    assert independent("ann", "bo", *in_hand, *renewals)
    assert holders("ann", *in_hand, *renewals, act(LINK, "ann", "kim")) == ["kim"]


def test_a_link_that_is_sent_to_an_address_of_one_persons_choice_ends_nothing():
    puppet = (act(MADE, "ann", "mo"), act(SENT, "ann", "hal"))

    assert holders("ann", *puppet) == ["mo"]
    assert not Hands(puppet).is_address_known("ann", since=NOW)
    seen = (*puppet, act(LINK, "ann", "hal", "zoe"))
    assert Hands(seen).is_address_known("ann", since=NOW)
    assert holders("ann", *seen) == []


@pytest.mark.parametrize("second", ["a", "mo"])
def test_two_accounts_of_one_hand_are_no_two_who_have_seen_an_address(second):
    puppets = (act(LINK, "a", "mo"), act(LINK, "b", "mo"))
    made = (*puppets, act(MADE, "ann", "b", second))

    assert not Hands(made).is_address_known("ann", since=NOW)
    assert holders("ann", *made, act(LINK, "ann", "b", second)) != []


def test_a_hand_that_has_ended_counts_for_what_was_asked_before_and_an_hour_after():
    ended = NOW - HOUR
    acts = [act(LINK, name, "mo") for name in ("ann", "bo")] + [
        act(LINK, name, "hal", "zoe", ended) for name in ("ann", "bo")
    ]

    assert not independent("ann", "bo", *acts, since=ended - HOUR)
    assert not independent("ann", "bo", *acts, since=ended + 0.99 * HOUR)
    assert independent("ann", "bo", *acts, since=ended + HOUR)


def test_who_was_in_hand_then_counts_whoever_is_it_now():
    # Mo used Ann's account to take Bo's in hand; Ann's is renewed since, Bo's is not.
    acts = (act(LINK, "ann", "mo"), act(LINK, "bo", "ann"), act(LINK, "ann", "hal", "zoe"))

    assert holders("bo", *acts) == ["ann", "mo"]
    assert not independent("mo", "bo", *acts)


def test_only_who_never_had_a_colleague_acts_alone():
    assert Hands([]).acts_alone("mo", ["mo"])
    assert not Hands([]).acts_alone("mo", ["mo", "hal"])
    assert Hands([act(MADE, "ann", "mo")]).acts_alone("mo", ["mo"])
    for second in ("", "hal"):
        was_one = act(ROLES, "ann", "mo", second, is_of_decider=True)
        assert not Hands([was_one]).acts_alone("mo", ["mo"])
