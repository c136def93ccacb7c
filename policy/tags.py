"""Tags: the names of groups of payees, such as `data`. A payee has some; a policy may allow some. Pure."""

import re
from collections.abc import Collection, Sequence

MOST_TAGS = 10  # of a payee
MOST_ALLOWED = 20  # of a policy
LONGEST_TAG = 32
_TAG = re.compile(rf"[a-z][a-z0-9-]{{0,{LONGEST_TAG - 1}}}", re.ASCII)
# What a shell writes for the absence of a limit.
_NO_TAG = "none"
Tags = tuple[str, ...]


def parse_tags(text: str, most: int = MOST_TAGS) -> Tags:
    """Read tags with commas between them, such as `compute, data`: each once, in their order.

    Raises:
        ValueError: says in a sentence what is wrong.
    """
    return check_tags([one.strip() for one in text.split(",") if one.strip()], most)


def parse_allowed_tags(text: str) -> Tags:
    """Read the tags that a policy allows: at least one.

    Raises:
        ValueError: says in a sentence what is wrong.
    """
    tags = parse_tags(text, MOST_ALLOWED)
    if not tags:
        raise ValueError("Must be at least one tag.")
    return tags


def check_tags(tags: Collection[str], most: int = MOST_TAGS) -> Tags:
    """Return tags each once, in their order.

    Raises:
        ValueError: says in a sentence what is wrong.
    """
    if not all(_TAG.fullmatch(tag) and tag != _NO_TAG for tag in tags):
        raise ValueError(
            f"Must be tags such as `compute, data`: each has up to {LONGEST_TAG} lower-case letters, digits and "
            f"hyphens, begins with a letter, and is not `{_NO_TAG}`."
        )
    found = tuple(sorted(set(tags)))
    if len(found) > most:
        raise ValueError(f"Must be at most {most} tags.")
    return found


def write_tags(tags: Sequence[str]) -> str:
    """Write tags as `parse_tags` reads them."""
    return ", ".join(tags)
