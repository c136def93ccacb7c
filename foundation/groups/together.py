"""What one transaction writes in a group and on the coordinator is committed on both or on neither.

Citus commits in two phases what it has written on several servers. What is written to a group's own tables, past
Citus, it does not see: it would commit on the coordinator first, and a server that crashes before its own commit would
lose the other half. So before anything is written elsewhere, Citus has to write in the group, too: to an empty table.
"""

import re
from collections.abc import Callable, Container
from typing import Any

from foundation.groups.here import here

_WRITES = re.compile(r'\s*(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM)\s+"?(\w+)', re.IGNORECASE)
_NOTHING = "DELETE FROM public.distributed_together WHERE agent_group = %s"


def commit_together(elsewhere: Callable[[], Container[str]]) -> Callable[..., Any]:
    """Make what Django wraps the statements of a group's session in; `elsewhere` names the tables of other servers."""

    def execute(run: Callable[..., Any], sql: Any, parameters: Any, many: Any, context: dict[str, Any]) -> Any:
        session = context["connection"]
        found = _WRITES.match(sql) if session.in_atomic_block and isinstance(sql, str) else None
        if found and found[1] in elsewhere():
            with session.cursor() as cursor:
                cursor.execute(_NOTHING, [here.group.number])
        return run(sql, parameters, many, context)

    return execute
