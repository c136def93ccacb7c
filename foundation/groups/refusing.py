"""Statements about the rows of all groups, while a server that has some of them does not answer.

Citus would wait for it in each of them, and whoever asks several such questions would wait several times. Once this
process has found that a server is away, they are refused at once; `places` says for how long.
"""

import re
from collections.abc import Callable, Container
from typing import Any

from foundation.groups.here import WHOLE, GroupAway, here

_NAMES = re.compile(r'"(\w+)"')


def refuse_while_away(is_any_away: Callable[[], bool], of_groups: Callable[[], Container[str]]) -> Callable[..., Any]:
    """Make what Django wraps the statements of a session outside groups in; `of_groups` names the tables of groups."""

    def execute(run: Callable[..., Any], sql: Any, parameters: Any, many: Any, context: dict[str, Any]) -> Any:
        if here.group == WHOLE and is_any_away() and isinstance(sql, str):
            tables = of_groups()
            if any(name in tables for name in _NAMES.findall(sql)):
                raise GroupAway("A server that has some of these rows did not answer a moment ago.")
        return run(sql, parameters, many, context)

    return execute
