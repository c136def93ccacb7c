"""Name one moment on all servers of a cluster, up to which a backup of each of them can be restored."""

import secrets
from contextlib import ExitStack, closing

from foundation.database import fetch_rows
from foundation.kernel.times import utc_now
from operators.distributing.opening import connect

_NODES = """
    SELECT nodename, nodeport FROM pg_dist_node WHERE noderole = 'primary' AND isactive
     ORDER BY groupid, nodename, nodeport
"""
# Whoever commits on several servers has a lock on this table of theirs until it is committed on all of them.
# (`citus_create_restore_point` of Citus 13 asks the coordinator alone, but any server may begin such a commit.)
_HOLD_BACK = """
    SET LOCAL idle_in_transaction_session_timeout = '30s';
    SET LOCAL lock_timeout = '10s';
    LOCK TABLE pg_catalog.pg_dist_transaction IN EXCLUSIVE MODE
"""


def create_restore_point() -> tuple[str, int]:
    """Write a name into the WAL of each server while nothing is committed on several; returns it, and how many servers.

    Payments go on: each is committed on one server. The WAL up to there is given to the archive at once. The name is
    new each time: recovery stops where it finds a name first, and a server may have one of an attempt that failed.

    Raises:
        OperationalError: a server is away, or something is being committed for more than 10 s.
        ProgrammingError: the user of `DATABASE_URL` may not do so.
    """
    name = f"allowance-{utc_now():%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
    with ExitStack() as opened:
        servers = [opened.enter_context(closing(connect(host, port))) for host, port in fetch_rows(_NODES, {})]
        cursors = [opened.enter_context(server.cursor()) for server in servers]
        for server, cursor in zip(servers, cursors, strict=True):
            server.set_autocommit(False)
            cursor.execute(_HOLD_BACK)
        for cursor in cursors:
            cursor.execute("SELECT pg_create_restore_point(%s)", [name])
        for server, cursor in zip(servers, cursors, strict=True):
            server.rollback()
            cursor.execute("SELECT pg_switch_wal()")
    return name, len(servers)
