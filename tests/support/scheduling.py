"""A pytest plugin: with pytest-xdist, files that take long begin first, and nothing but trifles waits behind them.

A file that mostly waits (for processes, blocks, deadlines) says for how long: `pytestmark = pytest.mark.long(250)`.
Begun last, it would be waited for alone while the other processors stand still.
"""

import re
from functools import cache

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_LONG = re.compile(r"\bmark\.long\((\d+)\)")


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]  # xdist publishes no types
    """Hand out whole files: the longest of all, or the smallest to a worker that is busy with a long one."""

    def __init__(self, config: pytest.Config, log=None) -> None:
        super().__init__(config, log)
        self._folder = config.rootpath
        self._seconds = cache(self._read_seconds)

    def _assign_work_unit(self, node: WorkerController) -> None:
        # A worker must know what comes next before it can begin: it is always given one file more.
        is_long = any(
            self._seconds(scope) for scope, unit in self.assigned_work[node].items() if not all(unit.values())
        )
        scope = min(self.workqueue, key=self._size) if is_long else max(self.workqueue, key=self._seconds)
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _size(self, scope: str) -> tuple[int, int]:
        return self._seconds(scope), len(self.workqueue[scope])

    def _read_seconds(self, scope: str) -> int:
        found = _LONG.search((self._folder / scope).read_text())
        return int(found[1]) if found else 0


def pytest_xdist_make_scheduler(config: pytest.Config, log) -> LongestFirst | None:
    return LongestFirst(config, log) if config.getoption("dist") == "loadfile" else None
