"""The ids of new agents: how they are written, and which of them people take for one another.

Agents that were made before may have any printable text as their id, and go on with it.
"""

import re
from collections.abc import Iterable
from itertools import islice

from foundation.groups import outside_groups
from foundation.kernel.errors import OperationRefused
from policy.models import Agent

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_SEPARATORS = re.compile(r"[\W_]+")
# Drawn alike in many typefaces.
_DRAWN_ALIKE = str.maketrans("01i", "oll")
# A word of an id that is shorter is a number, a team or a country: one letter is a difference that is meant.
_SHORTEST_WORD = 4
_MOST_NAMED = 5


def check_agent_id(agent_id: str) -> None:
    """Check the id of a new agent.

    Raises:
        OperationRefused: it is not 1 to 64 ASCII letters, digits, points, hyphens and underscores, a letter or digit
            first.
    """
    if not _ID.fullmatch(agent_id):
        raise OperationRefused(
            "An agent id is 1 to 64 letters (a to z), digits, points, hyphens and underscores, and begins with a "
            "letter or a digit, such as agent-research."
        )


def find_same(ids: Iterable[str]) -> dict[str, str]:
    """Find, for new ids, the agents whose ids differ in nothing, or in capitals and separators. It reads all ids.

    An archived one hinders its own id alone.
    """
    wanted = {written_plainly(one): one for one in ids}
    known = Agent.objects.order_by().values_list("id", "archived_at")
    with outside_groups():  # agents of all groups
        return {
            wanted[key]: other
            for other, archived_at in known.iterator()
            if (key := written_plainly(other)) in wanted and (archived_at is None or wanted[key] == other)
        }


def check_is_distinct(agent_id: str) -> None:
    """Check that a new id differs from those of all agents in more than capitals and separators.

    Raises:
        OperationRefused: it does not; names the agent.
    """
    if (other := find_same([agent_id]).get(agent_id)) is not None:
        raise OperationRefused(taken_for(agent_id, other))


def taken_for(agent_id: str, other: str) -> str:
    """Say which agent stands in the way of a new id."""
    if agent_id == other:
        return f"There is an agent {other} already."
    return f"There is an agent “{other}” already, which people take for “{agent_id}”: choose another id."


def find_lookalikes(agent_id: str) -> list[str]:
    """Find agents whose ids people take for this one, `_MOST_NAMED` at most. It reads all ids."""
    known = Agent.objects.order_by("id").values_list("id", flat=True).iterator()
    found = (other for other in known if other != agent_id and is_lookalike(agent_id, other))
    return list(islice(found, _MOST_NAMED))


def written_plainly(agent_id: str) -> str:
    """Write an id without what people do not say: capitals, and which separators there are."""
    return _SEPARATORS.sub("-", agent_id).strip("-").lower()


def is_lookalike(one: str, other: str) -> bool:
    """Tell whether people take an id for another one: they are drawn alike, or one word has a slip in it."""
    words, others = (written_plainly(each).split("-") for each in (one, other))
    drawn, others_drawn = ([word.translate(_DRAWN_ALIKE) for word in each] for each in (words, others))
    if "".join(drawn) == "".join(others_drawn):
        # The numbers of a fleet, such as team-1-11 and team-11-1, are meant.
        return drawn == others_drawn or not any(char.isdigit() for char in one)
    if len(words) != len(others):
        return False
    different = [pair for pair in zip(words, others, strict=True) if pair[0] != pair[1]]
    return len(different) == 1 and _is_slip(*different[0])


def _is_slip(word: str, other: str) -> bool:
    """Tell whether a word becomes another one by one letter more, less or other, or by two that change places."""
    without_digits = [[char for char in each if not char.isdigit()] for each in (word, other)]
    shortest = min(len(word), len(other))
    if shortest < _SHORTEST_WORD or without_digits[0] == without_digits[1]:
        return False
    at = next((at for at, pair in enumerate(zip(word, other, strict=False)) if pair[0] != pair[1]), shortest)
    rest, others = word[at:], other[at:]
    are_swapped = rest[:2] == others[1::-1] and rest[2:] == others[2:]
    return are_swapped or rest[1:] == others[1:] or rest[1:] == others or rest == others[1:]
