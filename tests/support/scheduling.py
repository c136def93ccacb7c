"""A pytest plugin: with pytest-xdist, all tests in one session, what takes long first, and what leaves nothing behind
before what does.

A test that is `rolled_back` finds a database with nothing in it but its own: a worker runs those before any other. The
last workers, as many as `--waiting` says, run none of them: they begin with the files that mostly wait (for processes,
blocks, deadlines), while the first workers keep the processors busy. Such a file says for how long it waits:
`pytestmark = pytest.mark.long(100)`. Begun last, it would be waited for alone.
"""

import re
from collections.abc import Iterator
from functools import cache
from types import SimpleNamespace

import pytest
from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

_LONG = re.compile(r"\bmark\.long\((\d+)\)")
# What stands behind a test's id while the scheduler is told of it, and then behind its file's name.
_ROLLED_BACK = "@rolled_back"


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]  # xdist publishes no types
    """Hand out whole files: the longest of all, or the smallest to a worker that is busy with a long one."""

    def __init__(self, config: pytest.Config, log=None) -> None:
        super().__init__(config, log)
        self._folder = config.rootpath
        self._seconds = cache(self._read_seconds)
        # Whoever takes the place of a worker that crashed has another name, and is none of them.
        self._waiting = {
            f"gw{number}" for number in range(max(1, self.numnodes - config.getoption("waiting")), self.numnodes)
        }
        # Those that have left something behind.
        self._begun: set[WorkerController] = set()

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return file + _ROLLED_BACK if nodeid.endswith(_ROLLED_BACK) else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        scope = self._choose(node)
        if scope is None:
            node.shutdown()
            return
        self.workqueue.move_to_end(scope, last=False)
        super()._assign_work_unit(node)

    def _choose(self, node: WorkerController) -> str | None:
        scopes: list[str] = list(self.workqueue)
        rolled_back = [scope for scope in scopes if scope.endswith(_ROLLED_BACK)]
        if rolled_back and node.gateway.id not in self._waiting and node not in self._begun:
            return max(rolled_back, key=self._seconds)
        self._begun.add(node)
        others = [scope for scope in scopes if not scope.endswith(_ROLLED_BACK)]
        # A worker must know what comes next before it can begin: it is always given one file more.
        is_long = any(
            self._seconds(scope) for scope, unit in self.assigned_work[node].items() if not all(unit.values())
        )
        return min(others, key=self._size, default=None) if is_long else max(others, key=self._seconds, default=None)

    def _size(self, scope: str) -> tuple[int, int]:
        return self._seconds(scope), len(self.workqueue[scope])

    def _read_seconds(self, scope: str) -> int:
        found = _LONG.search((self._folder / scope.removesuffix(_ROLLED_BACK)).read_text())
        return int(found[1]) if found else 0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--waiting", type=int, default=0, help="Workers that begin with what mostly waits (default: 0).")


def pytest_xdist_make_scheduler(config: pytest.Config, log) -> LongestFirst | None:
    return LongestFirst(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> Iterator[None]:
    """Tell the scheduler, which is told nothing but ids, which tests are rolled back."""
    items = session.items
    if hasattr(session.config, "workerinput"):
        session.items = [SimpleNamespace(nodeid=item.nodeid + _suffix(item)) for item in items]  # type: ignore[misc]
    yield
    session.items = items


def _suffix(item: pytest.Item) -> str:
    return _ROLLED_BACK if item.get_closest_marker("rolled_back") else ""
