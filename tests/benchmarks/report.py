"""Print what was measured: one table of what is promised, then what explains it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.benchmarks.figures import Figure


@dataclass(frozen=True, slots=True)
class Row:
    """A promise: what must be reached, what would be better still, and whether less is better than more."""

    title: str
    must: float | None = None
    stretch: float | None = None
    is_less_better: bool = False

    def is_reached(self, value: float) -> bool | None:
        """Tell whether a value keeps the promise; None: nothing is promised."""
        if self.must is None:
            return None
        return value <= self.must if self.is_less_better else value >= self.must


ROWS: Mapping[str, Row] = {
    "http_of_pgbench_8": Row("payments/s ÷ pgbench with the same rows, 8 connections", 0.40, 0.55),
    "http_of_pgbench_32": Row("payments/s ÷ pgbench with the same rows, 32 connections", 0.40, 0.55),
    "limited_of_unlimited_8": Row("payments/s with all optional limits ÷ with none, 8 connections", 0.90, 1),
    "limited_of_unlimited_32": Row("payments/s with all optional limits ÷ with none, 32 connections", 0.90, 1),
    "hot_of_pgbench_8": Row("one hot agent ÷ pgbench on one agent, 8 connections", 0.80, 1.20),
    "hot_of_pgbench_32": Row("one hot agent ÷ pgbench on one agent, 32 connections", 0.80, 1.20),
    "flat_of_hot_8": Row("a hundred agents under one root ÷ one hot agent, 8 connections"),
    "flat_of_hot_32": Row("a hundred agents under one root ÷ one hot agent, 32 connections"),
    "deep_of_hot_8": Row("a hundred agents with four levels above ÷ one hot agent, 8 connections"),
    "deep_of_hot_32": Row("a hundred agents with four levels above ÷ one hot agent, 32 connections"),
    "http_of_plain_8": Row("payments/s ÷ plain Django, 8 connections", 6, 10),
    "http_of_plain_32": Row("payments/s ÷ plain Django, 32 connections", 6, 10),
    "lone_p50": Row("a lone payment, p50", 2.5, 1.5, is_less_better=True),
    "lone_p99": Row("a lone payment, p99", 6, 1.5, is_less_better=True),
    "p99_at_32": Row("p99 at 32 connections", 60, 40, is_less_better=True),
    "window_slow_down": Row("slower with many entries in the agent's window", 5, 0, is_less_better=True),
    "log_slow_down": Row("dearer with many entries in the log", 5, 0, is_less_better=True),
    "log_first_page_of_payments": Row("first page of the log, reads/s ÷ payments/s", 2),
    "log_far_page_of_payments": Row("ten-thousandth page, reads/s ÷ payments/s", 2),
    "log_far_page_of_first": Row("ten-thousandth page ÷ first page", 0.95, 1),
    "budget_of_payments": Row("budget, reads/s ÷ payments/s", 2),
    "payment_of_payments": Row("payment, reads/s ÷ payments/s", 2),
    "webhooks_of_bare": Row("webhooks delivered/s ÷ bare POSTs", 0.5, 0.7),
    "settled_of_facilitator": Row("settled/s ÷ x402's facilitator on the same anvil", 5, 8),
    "settled_of_facilitator_alike": Row("the same, x402 with no more connections than the product"),
    "settled_of_raw": Row("settled/s ÷ raw escrow calls in batches", 1.5, 3),
    "sustained_per_s": Row("from request to settled for a while, the backlog not growing", 250, 400),
    "worker_ms": Row("the worker's processor time per settled payment", 0.8, 0.4, is_less_better=True),
    "slowest_page": Row("the console's slowest page with a long log", 300, is_less_better=True),
    "home_page": Row("the console's front page with a long log", 300, is_less_better=True),
    "citus_two_of_one": Row("Citus, two workers ÷ one, each held to a tenth of a processor", 1.8, 2),
    "citus_three_of_one": Row("Citus, three workers ÷ one", 2.6, 3),
    "citus_cost": Row(
        "PostgreSQL's time per payment, Citus with one group ÷ without Citus", 1.15, 1, is_less_better=True
    ),
    "citus_cost_of_groups": Row("PostgreSQL's time per payment, six groups on one worker ÷ one group"),
    "memory_per_million": Row("a web process grows in a million payments", 10, 0, is_less_better=True),
}
_MOST_SHARES = 20
_STEADY = 0.1


def report(outcome: Mapping[str, Any]) -> str:
    """Write the outcome of a run as text."""
    machine, figures = outcome["machine"], outcome["figures"]
    state = " with changes" if outcome["is_changed"] else ""
    where = f"{machine['cores']} cores, Python {machine['python']}"
    lines = [
        "",
        f"Commit {outcome['commit'][:12]}{state}, {where}, {outcome['options']['rounds']} turns, {outcome['took_s']} s",
        "",
        *_table(figures),
        "",
        *(f"✗ {words}" for words in outcome["failed"]),
        *find_unsteady(figures),
        "",
        *_explanations(figures),
        *_interpreter(figures.get("interpreter")),
    ]
    return "\n".join(lines)


def _table(figures: Mapping[str, Figure]) -> Iterator[str]:
    width = max(len(row.title) for row in ROWS.values())
    yield f"{'':<{width}}  {'median':>9}  {'spread':>17}  {'must':>6}  {'stretch':>7}"
    measured = {name: found for name, found in figures.items() if "median" in found}
    # In the order of the promises; what has none comes last.
    for name in [*(name for name in ROWS if name in measured), *(measured.keys() - ROWS.keys())]:
        found, row = measured[name], ROWS.get(name, Row(name))
        low, high = (show(value) for value in found["spread"])
        promise = "".join(
            f"  {'' if value is None else f'{value:g}':>{size}}" for value, size in ((row.must, 6), (row.stretch, 7))
        )
        mark = {None: "", True: "  ✓", False: "  ✗"}[row.is_reached(found["median"])]
        middle = f"{show(found['median'])} {found['unit']}".strip()
        yield f"{row.title:<{width}}  {middle:>9}  {f'{low} to {high}':>17}{promise}{mark}"


def find_unsteady(figures: Mapping[str, Figure]) -> Iterator[str]:
    """Name the ratios that one cannot decide by: their turns scatter too much."""
    for name, row in ROWS.items():
        if name in figures and not figures[name]["unit"]:
            low, high = figures[name]["spread"]
            middle = figures[name]["median"]
            if low < (1 - _STEADY) * middle or high > (1 + _STEADY) * middle:
                yield f"More than ± {_STEADY:.0%} around its median, take longer turns (--seconds): {row.title}"


def show(value: float) -> str:
    """Write a number with three digits that matter."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _explanations(figures: Mapping[str, Figure]) -> Iterator[str]:
    """Show each rate per second and the processor time behind it, once, and all other details as they are."""
    shown: dict[str, str] = {}
    for name, found in figures.items():
        details = dict(found.get("details", {}))
        sides = {name: details, **{key: value for key, value in details.items() if _is_side(value)}}
        for side, value in sides.items():
            if _is_side(value):
                costs = ", ".join(f"{part} {cost:.3f}" for part, cost in value["processor_ms"].items())
                shown[side] = f"{show(value['per_second']['median'])}/s" + (
                    f"; processor ms each: {costs}" if costs else ""
                )
        rest = {key: value for key, value in details.items() if key not in ("per_second", "processor_ms", *sides)}
        if rest:
            shown[f"{name} "] = ", ".join(f"{key} {value}" for key, value in rest.items())
    width = max(map(len, shown), default=0)
    for name, text in shown.items():
        yield f"{name:<{width}}  {text}"


def _is_side(value: Any) -> bool:
    return isinstance(value, dict) and "per_second" in value


def _interpreter(found: Mapping[str, Any] | None) -> Iterator[str]:
    if found is None:
        return
    yield f"\nWho holds the GIL in a web process under load ({found['samples']} samples), per cent by innermost room:"
    yield from (f"{share:>6.1f}  {name}" for name, share in [*found["rooms"].items()][:_MOST_SHARES])
    yield "\nThe same with all that is called from there, by function:"
    yield from (f"{share:>6.1f}  {name}" for name, share in [*found["functions"].items()][:_MOST_SHARES])
