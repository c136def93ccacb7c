"""Web servers on the database that the tests use."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.support.house import House


class Servers(House):
    """Several web servers, of two processes each: `web-1`, `web-2` and so on.

    `variables`: what each has in its environment besides. `logs`: where they write what they say.
    """

    PROCESSES_EACH = 2

    def __init__(
        self, count: int = 1, *, variables: Sequence[Mapping[str, str]] = (), logs: Path | None = None
    ) -> None:
        super().__init__(logs)
        self._variables = {f"web-{number}": own for number, own in enumerate(variables or [{}] * count, start=1)}

    @property
    def urls(self) -> list[str]:
        return [self.url(web) for web in self._variables]

    def __enter__(self) -> Self:
        try:
            self.begin()
            self.wait_for(*self._variables)
        except BaseException:
            self.close()
            raise
        return self

    def begin(self) -> None:
        """Start all of them, without waiting."""
        for web, own in self._variables.items():
            self.start(web, **{"WEB_CONCURRENCY": str(self.PROCESSES_EACH), **own})
