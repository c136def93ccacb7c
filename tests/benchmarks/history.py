"""What a long log costs: payments before and after it was written."""

import time

from tests.benchmarks.figures import Figure, figure, slow_down
from tests.benchmarks.processor import Costs
from tests.benchmarks.seed import write_log
from tests.benchmarks.site import Site

_CONNECTIONS = 8
_PAYERS = ("web", "PostgreSQL")  # whose processor time a payment is
_WINDOW_DAYS, _LOG_DAYS = (6, 1), (400, 8)  # ago, from and to


def measure_history(site: Site, rounds: int, window: int, log: int) -> dict[str, Figure]:
    """Write `window` entries of one agent into its weekly window, and more of others until the log has `log`.

    Payments of the one agent are compared with those of an agent without a history, in turns. Those of all agents can
    only be compared with those of before, so they are compared by processor time: other programs disturb it less.
    """
    cast = site.cast
    before = [site.drive(_CONNECTIONS) for _ in range(rounds)]
    began = time.perf_counter()
    long, short = cast.spare
    write_log(cast.agents[1:], cast.service, max(1, log - window), _LOG_DAYS)
    write_log([long], cast.service, window, _WINDOW_DAYS, amount="0.01")
    written_s = round(time.perf_counter() - began)
    after, of_long, of_short = [], [], []
    for _ in range(rounds):
        of_long.append(site.drive(_CONNECTIONS, [long]))
        of_short.append(site.drive(_CONNECTIONS, [short]))
        after.append(site.drive(_CONNECTIONS))
    return {
        "window_slow_down": slow_down(
            _rates(of_long), _rates(of_short), entries=window, more_processor_ms=_more(of_long, of_short)
        ),
        "log_slow_down": figure(
            [100 * (_cost_ms(late) / _cost_ms(early) - 1) for late, early in zip(after, before, strict=True)],
            "%",
            entries=log,
            more_processor_ms=_more(after, before),
            per_second_before=figure(_rates(before))["median"],
            per_second_after=figure(_rates(after))["median"],
            written_s=written_s,
        ),
    }


def _cost_ms(costs: Costs) -> float:
    return sum(costs.ms_each[name] for name in _PAYERS)


def _rates(turns: list[Costs]) -> list[float]:
    return [costs.load.rate for costs in turns]


def _more(turns: list[Costs], others: list[Costs]) -> dict[str, float]:
    """Tell by how many milliseconds each part uses the processor longer for a payment: noise disturbs this less."""
    return {name: round(_middle(turns, name) - _middle(others, name), 3) for name in _PAYERS}


def _middle(turns: list[Costs], name: str) -> float:
    return float(figure([costs.ms_each[name] for costs in turns])["median"])
