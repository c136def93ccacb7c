"""The resident memory of the web processes while they decide many payments."""

import time

from tests.benchmarks.figures import Figure, figure, slope
from tests.benchmarks.load import request
from tests.benchmarks.processor import resident_mib, web_processes
from tests.benchmarks.site import Site

_CONNECTIONS = 32
_SAMPLES = 40
_WARM_UP = 0.25  # of all payments: caches fill, and the allocator takes what it then keeps


def measure_memory(site: Site, payments: int) -> dict[str, Figure]:
    """Pay so often; tell by how many MiB the processes grow in a million payments once they are warm."""
    processes = web_processes(site.servers["web"])
    share = max(1, payments // _SAMPLES)
    points: dict[int, list[tuple[float, float]]] = {pid: [] for pid in processes}
    began = time.perf_counter()
    for number in range(1, _SAMPLES + 1):
        request(
            site.ports[0], site.cast.key, site.cast.service, site.cast.agents, count=share, connections=_CONNECTIONS
        )
        for pid in processes:
            points[pid].append((number * share / 1e6, resident_mib(pid)))
    warm = {pid: found[int(_SAMPLES * _WARM_UP) :] for pid, found in points.items()}
    # Each process decides its share: its slope is over the payments of all.
    return {
        "memory_per_million": figure(
            [slope(found) for found in warm.values()],
            "MiB",
            payments=share * _SAMPLES,
            seconds=round(time.perf_counter() - began),
            first_mib=[round(found[0][1], 1) for found in warm.values()],
            last_mib=[round(found[-1][1], 1) for found in warm.values()],
        )
    }
