"""The site of the measurements: a web server on a seeded database, a plain version beside it, and who asks them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import redis
from django.conf import settings
from django.db import connection

from tests.benchmarks.baseline import make_relayers, pgbench
from tests.benchmarks.load import Load, Make, converse, drive
from tests.benchmarks.processor import Costs, family_s, measure_costs, parent_of
from tests.benchmarks.seed import Cast, seed
from tests.support.servers import Servers

_PLAIN = {"DJANGO_SETTINGS_MODULE": "tests.benchmarks.plain.settings"}


@dataclass(frozen=True, slots=True)
class Site:
    """Servers that run, and who pays; `servers` has the id of each server's first process, by name.

    `seconds`: the length of one measurement.
    """

    cast: Cast
    seconds: float
    ports: list[int]
    servers: Mapping[str, int]
    plain_pid: int | None

    @staticmethod
    @contextmanager
    def begin(agents: int, seconds: float, *, has_plain: bool) -> Iterator["Site"]:
        """Make the agents and start the servers."""
        cast = seed(agents)
        make_relayers()
        variables: list[Mapping[str, str]] = [{}, _PLAIN] if has_plain else [{}]
        with Servers(variables=variables) as web:
            ports = [int(url.rpartition(":")[2]) for url in web.urls]
            servers = {"web": web.pid("web-1"), "PostgreSQL": _postmaster(), "Redis": _redis()}
            yield Site(cast, seconds, ports, servers, web.pid("web-2") if has_plain else None)

    def drive(self, connections: int, agents: list[str] | None = None) -> Costs:
        """Pay over HTTP for a while, by all agents or by these."""
        return self._drive(self.ports[0], self.servers, connections, agents or self.cast.agents)

    def settle_plans(self) -> None:
        """Let all sessions plan anew, as they do once the database has been used for a minute.

        PostgreSQL keeps the plans of foreign keys for a session. Those made while the log was nearly empty read all of
        it for each new row, until autovacuum has looked at the tables: ten times the price of a commit.
        """
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE")

    def drive_plain(self, connections: int) -> Costs:
        """Pay over HTTP at the plain version."""
        assert self.plain_pid is not None
        return self._drive(self.ports[1], {**self.servers, "web": self.plain_pid}, connections, self.cast.agents)

    def ask(self, make: Make, connections: int, seconds: float) -> Costs:
        """Ask for what `make` makes, and get 200."""
        return measure_costs(
            self.servers, lambda: converse(self.ports[0], [make] * connections, seconds=seconds, status=200)
        )

    def pgbench(self, connections: int, *, agents: int) -> tuple[float, dict[str, float]]:
        """Write the same rows by PostgreSQL alone; returns payments per second, and processor ms of each by part."""
        seconds = max(1, round(self.seconds))
        before_s = family_s(self.servers["PostgreSQL"])
        rate = pgbench(connections, seconds, self.cast.service, agents)
        used_s = family_s(self.servers["PostgreSQL"]) - before_s
        return rate, {"PostgreSQL": round(1000 * used_s / (rate * seconds), 3)}

    def _drive(self, port: int, servers: Mapping[str, int], connections: int, agents: list[str]) -> Costs:
        def load() -> Load:
            cast = self.cast
            return drive(port, cast.key, cast.service, agents, connections=connections, seconds=self.seconds)

        return measure_costs(servers, load)


def _postmaster() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return parent_of(int(cursor.fetchone()[0]))


def _redis() -> int:
    with redis.Redis.from_url(settings.REDIS_URL) as client:
        return int(client.info("server")["process_id"])
