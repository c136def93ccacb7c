"""Payments over HTTP, next to what PostgreSQL alone does with the same rows, and to a plain Django version.

All run on the same machine, database, tables and agents, in turns, so that the ratios mean something where the
numbers alone do not. Over HTTP everything is real: authentication, policy, EIP-712 co-signing, transaction signing,
receipt signing, durable commits. Settlement does not run meanwhile: it is another process' work.
"""

import argparse
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.benchmarks.apart import measure_apart
from tests.benchmarks.figures import Figure, figure, ratio

if TYPE_CHECKING:
    from tests.benchmarks.processor import Costs
    from tests.benchmarks.site import Site

MANY, FEW = 32, 8  # connections
STAGES = ("payments", "hot", "plain", "lone", "memory", "history", "reads", "profile")


def main() -> None:
    """Read what to measure, and measure it in an installation of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.money_path", description=__doc__)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--memory", type=int, default=20_000)
    parser.add_argument("--window", type=int, default=100_000)
    parser.add_argument("--log", type=int, default=1_000_000)
    options = parser.parse_args()
    measure_apart("tests.benchmarks.money_path", measure, options, CHAIN_STATE_MAX_AGE_S="86400")


def measure(options: argparse.Namespace) -> dict[str, Figure]:
    """Measure each stage; returns the figures by name."""
    from django.core.management import call_command

    from tests.benchmarks.history import measure_history
    from tests.benchmarks.interpreter import measure_interpreter
    from tests.benchmarks.memory import measure_memory
    from tests.benchmarks.reads import measure_reads
    from tests.benchmarks.site import Site

    print(f"Making {options.agents} agents ...", flush=True)
    with Site.begin(options.agents, options.seconds, has_plain="plain" in options.stages) as site:
        site.drive(FEW)  # warm up
        site.settle_plans()
        turns = Turns()
        for number in range(options.rounds):
            print(f"Turn {number + 1} of {options.rounds} ...", flush=True)
            turns.take(site, options.stages)
        figures = turns.figures()
        # In this order: what is measured last finds the longest log.
        later: dict[str, Callable[[], dict[str, Figure]]] = {
            "profile": partial(measure_interpreter, site),
            "memory": partial(measure_memory, site, options.memory),
            "history": partial(measure_history, site, options.rounds, options.window, options.log),
            "reads": partial(measure_reads, site, options.rounds),
        }
        for stage, measure_stage in later.items():
            if stage in options.stages:
                print(f"Measuring {stage} ...", flush=True)
                figures.update(measure_stage())
        call_command("verify_log", "--agent", site.cast.agents[0], stdout=io.StringIO())  # raises if anything is wrong
    return figures


@dataclass
class Turns:
    """What each turn gave, by name: rates per second, latencies in ms, costs of a payment in processor ms."""

    values: dict[str, list[float]] = field(default_factory=dict)
    costs: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def take(self, site: "Site", stages: Iterable[str]) -> None:
        """Let each side have its turn."""
        for connections in (FEW, MANY):
            if {"payments", "plain"} & {*stages}:
                self._add(f"http_{connections}", site.drive(connections))
                self._add_alone(f"alone_{connections}", *site.pgbench(connections, agents=len(site.cast.agents)))
            if "plain" in stages:
                self._add(f"plain_{connections}", site.drive_plain(connections))
            if "hot" in stages:
                self._add(f"hot_{connections}", site.drive(connections, site.cast.agents[:1]))
                self._add_alone(f"alone_hot_{connections}", *site.pgbench(connections, agents=1))
        if "lone" in stages:
            self._add("lone", site.drive(1))

    def figures(self) -> dict[str, Figure]:
        """Compare what is there."""
        found: dict[str, Figure] = {}
        for name in ("http", "hot"):
            for connections in (FEW, MANY):
                if f"{name}_{connections}" in self.values:
                    found[f"{name}_of_pgbench_{connections}"] = self._compare(name, "alone", connections)
        for connections in (FEW, MANY):
            if f"plain_{connections}" in self.values:
                found[f"http_of_plain_{connections}"] = self._compare("http", "plain", connections)
        if "lone" in self.values:
            found["lone_p50"] = figure(self.values["lone_p50"], "ms", **self._details("lone"))
            found["lone_p99"] = figure(self.values["lone_p99"], "ms")
        if f"http_{MANY}" in self.values:
            found[f"p99_at_{MANY}"] = figure(self.values[f"http_{MANY}_p99"], "ms")
        return found

    def _compare(self, name: str, beside: str, connections: int) -> Figure:
        suffix = f"hot_{connections}" if name == "hot" and beside == "alone" else f"{connections}"
        one, other = f"{name}_{connections}", f"{beside}_{suffix}"
        return ratio(self.values[one], self.values[other], **self._details(one), **{other: self._details(other)})

    def _details(self, name: str) -> dict[str, Any]:
        return {"per_second": figure(self.values[name]), "processor_ms": middle_costs(self.costs.get(name, []))}

    def _add(self, name: str, costs: "Costs") -> None:
        self._keep(name, costs.load.rate)
        self._keep(f"{name}_p50", costs.load.percentile_ms(50))
        self._keep(f"{name}_p99", costs.load.percentile_ms(99))
        self.costs.setdefault(name, []).append(costs.ms_each)

    def _add_alone(self, name: str, rate: float, ms_each: dict[str, float]) -> None:
        self._keep(name, rate)
        self.costs.setdefault(name, []).append(ms_each)

    def _keep(self, name: str, value: float) -> None:
        self.values.setdefault(name, []).append(value)


def middle_costs(costs: list[dict[str, float]]) -> dict[str, float]:
    """Take the median of each part's costs."""
    return {name: figure([one[name] for one in costs])["median"] for name in (costs[0] if costs else ())}


if __name__ == "__main__":
    main()
