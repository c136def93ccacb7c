"""Mark what differs between two texts. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby

_MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class Run:
    """Characters in a row that all differ from the other text, or all do not."""

    text: str
    is_changed: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """Two texts, the earlier and the later, in runs, and the difference in a sentence; "" if there is none."""

    old: tuple[Run, ...]
    new: tuple[Run, ...]
    sentence: str


def compare(old: str, new: str, *, ignores_case: bool = False) -> Difference:
    """Compare two texts: by place if they are equally long, as people do, else by what they share in order.

    Addresses on EVM chains are compared without their case: it is a checksum, which changes all over.
    """
    left, right = (old.lower(), new.lower()) if ignores_case else (old, new)
    if len(left) == len(right):
        changed = [one != other for one, other in zip(left, right, strict=True)]
        return Difference(_runs(old, changed), _runs(new, changed), _sentence(old, new, changed))
    gone, added = [True] * len(old), [True] * len(new)
    for block in SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks():
        gone[block.a : block.a + block.size] = [False] * block.size
        added[block.b : block.b + block.size] = [False] * block.size
    counts = {"gone": sum(gone), "new": sum(added)}
    said = " and ".join(f"{count} {word}" for word, count in counts.items() if count)
    sentence = f"{len(new)} characters instead of {len(old)}: {said}."
    return Difference(_runs(old, gone), _runs(new, added), sentence)


def _runs(text: str, changed: Sequence[bool]) -> tuple[Run, ...]:
    groups = groupby(zip(text, changed, strict=True), key=lambda pair: pair[1])
    return tuple(Run("".join(letter for letter, _ in group), is_changed) for is_changed, group in groups)


def _sentence(old: str, new: str, changed: Sequence[bool]) -> str:
    places = [place for place, is_changed in enumerate(changed) if is_changed]
    if not places:
        return ""
    count = f"{len(places)} of {len(new)} characters {'differs' if len(places) == 1 else 'differ'}"
    if len(places) > _MOST_NAMED:
        return f"{count}."
    named = "; ".join(f"character {place + 1} was “{old[place]}”, is “{new[place]}”" for place in places)
    return f"{count}: {named}."
