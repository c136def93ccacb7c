"""The names that a request uses: the parameters of its query, and the members of its body.

A parameter that is not known is refused: whoever mistypes a filter would be answered what they have not asked for, and
take it for their own. A member that is not known is ignored, and the answer says so. Source: docs/contract.md,
"Requests and answers".
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import islice

from django.http import QueryDict

from foundation.kernel.errors import InvalidRequest

_MOST_FAULTS = 16
# Names are chosen by others: a header names a few, and nothing of them but what every proxy passes on.
_MOST_IGNORED, _LONGEST_NAME = 8, 48
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]", re.ASCII)


def check_query(query: QueryDict, known: Iterable[str]) -> None:
    """Check the names of a query's parameters; their values are for whoever reads them.

    Raises:
        InvalidRequest: one that is not known here, with the name that it comes closest to; or one with two values.
    """
    names = tuple(known)
    faults = (
        {"param": name[:_LONGEST_NAME], "message": message}
        for name, values in query.lists()
        if (message := _find_fault(name, values, names))
    )
    if told := list(islice(faults, _MOST_FAULTS)):  # no more are looked for: to find the nearest name takes a while
        raise InvalidRequest(fields=told)


def name_ignored(body: Mapping[str, object], known: Iterable[str]) -> str:
    """Name the members of a body that are not read, as the header `Ignored-Members` does; "": there are none."""
    ignored = [name for name in body if name not in known]
    named = [_UNSAFE.sub("?", name[:_LONGEST_NAME]) or "?" for name in ignored[:_MOST_IGNORED]]
    more = len(ignored) - len(named)
    return ", ".join([*named, f"+{more}"] if more else named)


def _find_fault(name: str, values: list[str], known: tuple[str, ...]) -> str:
    if name in known:
        return "Was sent more than once, with different values." if len(set(values)) > 1 else ""
    if not known:
        return "There is no such parameter: this address takes none."
    spelt = {_spelling(one): one for one in known}
    near = get_close_matches(_spelling(name[:_LONGEST_NAME]), spelt, n=1)
    hint = f"Did you mean {spelt[near[0]]}?" if near else f"There are {', '.join(known)}."
    return f"There is no such parameter. {hint}"


def _spelling(name: str) -> str:
    """Drop what people confuse: case, hyphens, underscores."""
    return name.lower().replace("_", "").replace("-", "")
