"""Tell whether a process of a type works in this container: `python -m allowance.healthy worker`; status 1: none does.

`web` and `mcp` are asked over HTTP. The others have no port, and tell by their heartbeats. While Redis is away nobody
can say, and no restart would help: that counts as working.
"""

import os
import socket
import sys
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

from foundation.environment.process_types import ProcessType

_TIMEOUT_S = 3


def main(name: str) -> None:
    """Look once.

    Raises:
        SystemExit: says what is wrong.
    """
    kind = ProcessType(name)
    if not (_answers() if kind in (ProcessType.WEB, ProcessType.MCP) else _beats(kind)):
        sys.exit(f"No process of {kind} works here.")


def _answers() -> bool:
    connection = HTTPConnection("127.0.0.1", int(os.environ["PORT"]), timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False


def _beats(kind: ProcessType) -> bool:
    # Only here: who answers is asked much faster without them. No settings are loaded, which would take seconds.
    import redis  # noqa: PLC0415
    from django.conf import settings  # noqa: PLC0415

    from foundation.heartbeats import AWAY_AFTER_S, read_heartbeats  # noqa: PLC0415

    settings.configure(REDIS_URL=os.environ["REDIS_URL"])
    try:
        found = read_heartbeats()
    except redis.RedisError:
        return True
    here = [one for one in found if one.process is kind and one.name.startswith(f"{socket.gethostname()}:")]
    return any(one.age_s <= AWAY_AFTER_S for one in here)


if __name__ == "__main__":
    main(*sys.argv[1:])
