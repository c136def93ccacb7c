"""TCP ports of this machine that nobody has."""

import itertools
import random

from workshop.localnet.folder import is_free

# Below those that Linux and macOS hand out to outgoing connections, and none that an installation takes.
_PORTS = range(12_000, 20_000)


def free_ports(count: int) -> list[int]:
    """Choose TCP ports that nobody has, and that no outgoing connection is given before somebody listens there."""
    return list(itertools.islice(filter(is_free, random.sample(_PORTS, k=1_000)), count))
