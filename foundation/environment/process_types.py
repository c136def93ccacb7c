"""The types of processes. Pure.

The command that starts a process says what it is. A setting would have to repeat that, and could contradict it.
"""

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise


class ProcessType(StrEnum):
    """A line of the Procfile; `release` is made of commands."""

    WEB = "web"
    WORKER = "worker"
    WEBHOOKS = "webhooks"
    BEAT = "beat"
    MCP = "mcp"  # reads no secret: each of its callers brings a key
    COMMAND = "command"


EVERY_TYPE = frozenset(ProcessType)
# Which process serves a queue of Celery.
SERVERS = {"celery": ProcessType.WORKER, "webhooks": ProcessType.WEBHOOKS}


def types_of_celery(arguments: Sequence[str]) -> frozenset[ProcessType]:
    """Return the types that the arguments behind `celery` start. A worker without `--queues` serves all of them."""
    if "worker" not in arguments:
        # The others, such as `status` and `inspect`, do what beat does: they speak to the broker.
        return frozenset({ProcessType.BEAT})
    beside = {ProcessType.BEAT} if {"-B", "--beat"} & {*arguments} else set()
    queues = [queue for value in _queues(arguments) for queue in value.split(",")]
    return types_of_queues(queues or SERVERS) | beside


def types_of_queues(queues: Sequence[str] | dict[str, ProcessType]) -> frozenset[ProcessType]:
    """Return the types that serve some queues. A queue that is not known counts as all of them."""
    return frozenset(SERVERS[queue] for queue in queues) if {*queues} <= SERVERS.keys() else frozenset(SERVERS.values())


def _queues(arguments: Sequence[str]) -> list[str]:
    """Find the values of `--queues` and `-Q`, joined to them or behind them."""
    values = [argument.partition("=")[2] for argument in arguments if argument.startswith("--queues=")]
    values += [argument[2:] for argument in arguments if argument.startswith("-Q") and argument != "-Q"]
    return values + [value for option, value in pairwise(arguments) if option in ("-Q", "--queues")]
