"""Payments over HTTP on one plain PostgreSQL, and on Citus with one worker, two and three, as root.

Each server of PostgreSQL is held to a tenth of a processor, so that it decides, and not the machine: a web process
takes three times PostgreSQL's time. CITUS names a folder with `cluster.py`, as for `make test-citus`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.benchmarks.apart import measure_apart
from tests.benchmarks.figures import Figure, figure, ratio

_BIN = Path("/usr/lib/postgresql/15/bin")
# How many workers each side has; none: PostgreSQL without Citus. `alone` has one group: its batches are as large.
_SIDES = {"plain": 0, "alone": 1, "one": 1, "two": 2, "three": 3}
_SHARE = 0.1
_PERIOD_US = 100_000
_CPU = Path("/sys/fs/cgroup/cpu") if Path("/sys/fs/cgroup/cpu").is_dir() else Path("/sys/fs/cgroup")
_PLAIN = "listen_addresses='127.0.0.1'\nmax_connections=200\nshared_buffers=128MB\nwal_level=logical\nport={port}\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.citus", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--agents", type=int, default=120)
    parser.add_argument("--groups", type=int, default=6)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--side", choices=_SIDES, help="Measure this one alone, on the servers of the environment.")
    options = parser.parse_args()
    if options.side:
        measure_apart("tests.benchmarks.citus", measure, options, CHAIN_STATE_MAX_AGE_S="86400")
    else:
        _give(measure_all(options))


def measure_all(options: argparse.Namespace) -> dict[str, Figure]:
    """Give each side its turns, in an installation of its own each time; returns the figures by name."""
    rates: dict[str, list[float]] = {side: [] for side in _SIDES}
    costs: dict[str, list[float]] = {side: [] for side in _SIDES}
    for turn in range(options.rounds):
        for side in _SIDES:
            try:
                found = _measure_side(side, options)
            except subprocess.CalledProcessError:  # a port that was free was taken before its server started
                found = _measure_side(side, options)
            rates[side].append(found["rate"])
            costs[side].append(found["postgresql_ms"])
            print(f"Turn {turn + 1}, {side}: {found['rate']:.0f}/s, {found['postgresql_ms']:.3f} ms", flush=True)
    details = {side: {"per_second": figure(rates[side]), "postgresql_ms": figure(costs[side])} for side in _SIDES}
    return {
        "citus_two_of_one": ratio(rates["two"], rates["one"], **details),
        "citus_three_of_one": ratio(rates["three"], rates["one"]),
        "citus_cost": ratio(costs["alone"], costs["plain"]),
        "citus_cost_of_groups": ratio(costs["one"], costs["alone"]),
    }


def _measure_side(side: str, options: argparse.Namespace) -> dict[str, float]:
    """Start the servers of a side, and measure on them in a process of its own."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        command = [sys.executable, "-m", "tests.benchmarks.citus", "--side", side]
        command += [f"--{name}={getattr(options, name)}" for name in ("seconds", "agents", "connections")]
        command += [f"--groups={1 if side == 'alone' else options.groups}"]
        environment = {**os.environ, "ALLOWANCE_BENCHMARK_RESULT": file.name}
        environment.pop("ALLOWANCE_BENCHMARK", None)
        if _SIDES[side]:
            cluster = Path(os.environ["CITUS"]).resolve() / "cluster.py"
            shell = ["sh", "-c", 'DATABASE_URL="$CITUS_DATABASE_URL" exec "$@"', "sh"]
            command = [sys.executable, str(cluster), "--workers", str(_SIDES[side]), *shell, *command]
            subprocess.run(command, env=environment, check=True)
        else:
            with _plain_server() as url:
                subprocess.run(command, env={**environment, "DATABASE_URL": url}, check=True)
        found: dict[str, float] = json.loads(file.read())
        return found


def measure(options: argparse.Namespace) -> dict[str, float]:
    """Make agents in all groups, hold the servers back, and pay."""
    from tests.benchmarks.apart_on_citus import Cast, postmasters
    from tests.benchmarks.load import drive
    from tests.benchmarks.processor import measure_costs
    from tests.support.servers import Servers

    cast = Cast.make(options.agents, options.groups if options.side != "plain" else None)
    with Servers(variables=[{}]) as web:
        port = int(web.urls[0].rpartition(":")[2])

        def pay(seconds: float) -> Any:
            return drive(port, cast.key, cast.service, cast.agents, connections=options.connections, seconds=seconds)

        pay(15)  # warm up: each session plans for itself
        cast.analyse()
        pay(2)
        servers = {f"PostgreSQL {number}": pid for number, pid in enumerate(postmasters())}
        with held_to_a_share(list(servers.values())):
            pay(2)
            costs = measure_costs(servers, lambda: pay(options.seconds))
    return {"rate": costs.load.rate, "postgresql_ms": sum(costs.ms_each[name] for name in servers)}


@contextmanager
def held_to_a_share(postmasters: list[int]) -> Iterator[None]:
    """Let each of these servers, with all its processes, use a tenth of a processor at most."""
    groups = []
    try:
        for pid in postmasters:
            group = _CPU / f"allowance-bench-{pid}"
            group.mkdir()
            groups.append(group)
            if (group / "cpu.max").exists():
                (group / "cpu.max").write_text(f"{int(_SHARE * _PERIOD_US)} {_PERIOD_US}")
            else:
                (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
                (group / "cpu.cfs_quota_us").write_text(str(int(_SHARE * _PERIOD_US)))
            children = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
            for member in (pid, *map(int, children.split())):
                (group / "cgroup.procs").write_text(str(member))
        yield
    finally:
        for group in groups:
            for one in (group / "cgroup.procs").read_text().split():
                (_CPU / "cgroup.procs").write_text(one)
            group.rmdir()


@contextmanager
def _plain_server() -> Iterator[str]:
    """Run PostgreSQL as `cluster.py` does, without Citus; yields its address."""
    from tests.support.ports import free_ports

    with tempfile.TemporaryDirectory(prefix="plain-") as folder:
        data, port = Path(folder) / "data", free_ports(1)[0]
        Path(folder).chmod(0o777)
        as_postgres = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]

        def run(program: str, *arguments: str) -> None:
            command = [*as_postgres, str(_BIN / program), *arguments]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")

        run("initdb", "-D", str(data), "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        with (data / "postgresql.conf").open("a") as file:
            file.write(_PLAIN.format(port=port) + f"unix_socket_directories='{folder}'\n")
        run("pg_ctl", "-D", str(data), "-l", f"{folder}/log", "-w", "start")
        try:
            run("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "allowance")
            yield f"postgres://postgres@127.0.0.1:{port}/allowance"
        finally:
            run("pg_ctl", "-D", str(data), "-m", "immediate", "stop")


def _give(figures: dict[str, Figure]) -> None:
    for name, one in figures.items():
        print(name, one["median"], one["spread"])
    if result := os.environ.get("ALLOWANCE_BENCHMARK_RESULT"):
        Path(result).write_text(json.dumps(figures))


if __name__ == "__main__":
    main()
