"""Payments over HTTP, next to what PostgreSQL alone does with the same rows, and to a plain Django version.

All run on the same machine, database, tables and agents, in turns, so that the ratios mean something where the
numbers alone do not. Over HTTP everything is real: authentication, policy, EIP-712 co-signing, transaction signing,
receipt signing, durable commits. Settlement does not run meanwhile: it is another process' work.
"""

import argparse
import io
import statistics
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
STAGES = ("payments", "limits", "hot", "trees", "plain", "lone", "memory", "history", "reads", "profile")


def main() -> None:
    """Read what to measure, and measure it in an installation of its own."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.money_path", description=__doc__)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--seconds", type=float, default=5)
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


@dataclass(frozen=True, slots=True)
class Slice:
    """What one side did in a part of its turn: rate per second and latencies in ms by suffix of its name, and costs."""

    values: dict[str, float]
    ms_each: dict[str, float]


@dataclass
class Turns:
    """What each turn gave, by name: rates per second, latencies in ms, costs of a payment in processor ms."""

    values: dict[str, list[float]] = field(default_factory=dict)
    costs: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def take(self, site: "Site", stages: Iterable[str]) -> None:
        """Let each pair have its turn."""
        agents = site.cast.agents
        for connections in (FEW, MANY):
            pay = partial(_drive, partial(site.drive, connections))
            pay_hot = partial(_drive, partial(site.drive, connections, agents[:1]))
            pay_plain = partial(_drive, partial(site.drive_plain, connections))
            if "payments" in stages:
                alone = partial(_write_alone, site, connections, len(agents))
                self._compare_sides((f"http_{connections}", pay), (f"alone_{connections}", alone))
            if "limits" in stages:
                pay_limited = partial(_drive, partial(site.drive, connections, site.cast.limited))
                self._compare_sides((f"limited_{connections}", pay_limited), (f"unlimited_{connections}", pay))
            if "plain" in stages:
                self._compare_sides((f"beside_plain_{connections}", pay), (f"plain_{connections}", pay_plain))
            if "hot" in stages:
                alone = partial(_write_alone, site, connections, 1)
                self._compare_sides((f"hot_{connections}", pay_hot), (f"alone_hot_{connections}", alone))
            if "trees" in stages:
                for name, leaves in (("flat", site.cast.flat), ("deep", site.cast.deep)):
                    pay_in_tree = partial(_drive, partial(site.drive, connections, leaves))
                    self._compare_sides((f"{name}_{connections}", pay_in_tree), (f"{name}_hot_{connections}", pay_hot))
        if "lone" in stages:
            self._keep("lone", _drive(partial(site.drive, 1)))

    def _compare_sides(self, one: tuple[str, Callable[[], Slice]], other: tuple[str, Callable[[], Slice]]) -> None:
        """Measure the one, the other twice, and the one again: if the machine grows slower, it does so for both."""
        (name, act), (beside, act_beside) = one, other
        first = act()
        self._keep(beside, act_beside(), act_beside())
        self._keep(name, first, act())

    def figures(self) -> dict[str, Figure]:
        """Compare what is there."""
        found: dict[str, Figure] = {}
        for connections in (FEW, MANY):
            for name, one, other in (
                ("http_of_pgbench", "http", "alone"),
                ("limited_of_unlimited", "limited", "unlimited"),
                ("hot_of_pgbench", "hot", "alone_hot"),
                ("http_of_plain", "beside_plain", "plain"),
                ("flat_of_hot", "flat", "flat_hot"),
                ("deep_of_hot", "deep", "deep_hot"),
            ):
                if f"{one}_{connections}" in self.values:
                    found[f"{name}_{connections}"] = self._compare(f"{one}_{connections}", f"{other}_{connections}")
        if "lone" in self.values:
            found["lone_p50"] = figure(self.values["lone_p50"], "ms", **self._details("lone"))
            found["lone_p99"] = figure(self.values["lone_p99"], "ms")
        if f"http_{MANY}" in self.values:
            found[f"p99_at_{MANY}"] = figure(self.values[f"http_{MANY}_p99"], "ms")
        return found

    def _compare(self, one: str, other: str) -> Figure:
        return ratio(self.values[one], self.values[other], **self._details(one), **{other: self._details(other)})

    def _details(self, name: str) -> dict[str, Any]:
        return {"per_second": figure(self.values[name]), "processor_ms": middle_costs(self.costs.get(name, []))}

    def _keep(self, name: str, *slices: Slice) -> None:
        """Keep what a side did in its turn: the mean of its slices, which are of the same length."""
        for suffix in slices[0].values:
            mean = statistics.fmean(one.values[suffix] for one in slices)
            self.values.setdefault(f"{name}{suffix}", []).append(mean)
        parts = slices[0].ms_each
        self.costs.setdefault(name, []).append(
            {part: statistics.fmean(one.ms_each[part] for one in slices) for part in parts}
        )


def _drive(drive: "Callable[[], Costs]") -> Slice:
    costs = drive()
    latencies = {f"_p{rank}": costs.load.percentile_ms(rank) for rank in (50, 99)}
    return Slice({"": costs.load.rate, **latencies}, costs.ms_each)


def _write_alone(site: "Site", connections: int, agents: int) -> Slice:
    rate, ms_each = site.pgbench(connections, agents=agents)
    return Slice({"": rate}, ms_each)


def middle_costs(costs: list[dict[str, float]]) -> dict[str, float]:
    """Take the median of each part's costs."""
    return {name: figure([one[name] for one in costs])["median"] for name in (costs[0] if costs else ())}


if __name__ == "__main__":
    main()
