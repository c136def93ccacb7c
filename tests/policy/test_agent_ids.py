"""The ids of new agents: how they are written, and which people take for one another."""

import pytest

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from policy.agent_ids import check_agent_id, check_is_distinct, find_lookalikes, is_lookalike
from tests.support.factories import make_agent_of_old, new_name

UNLIKE_ANY = "agent-research"


@pytest.mark.parametrize("agent_id", ["a", "a" * 64, "7", "Agent_7.b-c", UNLIKE_ANY])
def test_an_id_is_letters_digits_points_hyphens_and_underscores(agent_id):
    check_agent_id(agent_id)


@pytest.mark.parametrize(
    "agent_id",
    [
        "", "a" * 65, "a\nb", "a\x00b", "\ud800", "team/agent 7", "agent ", " agent", "-agent", ".agent", "_agent",
        "\u00e4gent", "agent-r\N{CYRILLIC SMALL LETTER IE}search", "\N{GRINNING FACE}", "=HYPERLINK(1)", "a?b", "a%41",
        "<script>", "\N{ARABIC-INDIC DIGIT FIVE}", "agent\n",
    ],
)  # fmt: skip
def test_a_new_id_is_nothing_else(agent_id):
    with pytest.raises(OperationRefused, match="letters"):
        check_agent_id(agent_id)


@pytest.mark.parametrize(
    "other",
    [
        "agent-reserch", "agent-researrch", "agent-rseearch", "agent-resaarch", "agentresearch", "age-ntresearch",
        "agent-research ", "agent-r\N{CYRILLIC SMALL LETTER IE}search", "AGENT-RESEARCH",
    ],
)  # fmt: skip
def test_a_slip_makes_a_lookalike(other):
    assert is_lookalike(UNLIKE_ANY, other)
    assert is_lookalike(other, UNLIKE_ANY)


@pytest.mark.parametrize(("one", "other"), [("bill", "b1ll"), ("agent-10", "agent-lO"), ("mail-1", "mall-l")])
def test_what_is_drawn_alike_is_a_lookalike(one, other):
    assert is_lookalike(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (UNLIKE_ANY, "agent-travel"),
        (UNLIKE_ANY, f"{UNLIKE_ANY}-2"),
        ("agent-research-1", "agent-research-2"),
        ("agent-research-1", "agent-research-12"),
        ("team-1-11", "team-11-1"),
        ("team-a", "team-b"),
        ("spend-us", "spend-uk"),
        ("agent7", "agent8"),
    ],
)
def test_numbers_and_short_words_differ_on_purpose(one, other):
    assert not is_lookalike(one, other)


@pytest.mark.django_db
def test_agents_that_were_made_before_are_found_whatever_their_ids():
    name = new_name("agent-research")
    with_blank, with_cyrillic = f"{name} ", name.replace("e", "\N{CYRILLIC SMALL LETTER IE}", 1)
    for one in (with_blank, with_cyrillic):
        make_agent_of_old(one, asset=Asset.USDC)

    with pytest.raises(OperationRefused, match="which people take for"):
        check_is_distinct(name)
    assert find_lookalikes(name) == sorted([with_blank, with_cyrillic])
