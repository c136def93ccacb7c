"""`make bench-settle`: payments per second from HTTP request to `settled`, next to what the node alone can do.

All run on the same machine and node in turns, so that the ratios mean something where the numbers alone do not. Raw:
pre-signed transactions from as many accounts as there are relayers, in JSON-RPC batches, until all are final; plain
ERC-20 transfers, and the very calls of the escrow that the product sends, which need twice the gas. The product:
everything is real (HTTP, policy, co-signing, durable commits, workers and beat as the Procfile starts them), until
the last payment is `settled`; on this machine it shares the processors with the node. Then payers ask for a while as
settlement keeps up (`sustained.py`). On anvil: x402's facilitator,
with as many connections as it is fastest with, and ("alike") with as many as ask the product: see
`tests/benchmarks/facilitator`.

The workers' processor time includes beat, and the tasks that an idle second costs.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.apart import measure_apart
from tests.benchmarks.evm_nodes import ANVIL, EMBEDDED, RPC_URL, default_node, evm_node

if TYPE_CHECKING:
    from tests.benchmarks.facilitator.processes import Facilitators
    from tests.benchmarks.raw import RawSenders
    from tests.benchmarks.seed import Cast
    from tests.benchmarks.workers import Workers

_POLL_S = 0.1
_PATIENCE_S = 600
_WARM_UP = 200
_BLOCKS = 8
# It answers when a payment is in a block, so that its rate soon stays as it is.
_MOST_FACILITATED = 1000
# Nodes keep 16 transactions of each sender: with the default of 16 relayers, that would be what is measured.
_RELAYERS = "32"
_FIGURES = {
    "transfers_per_s": "transfers/s",
    "pays_per_s": "pays/s",
    "settled_per_s": "settled/s",
    "of_transfers": "of transfers",
    "of_pays": "of pays",
    "facilitator_per_s": "x402 settled/s",
    "of_facilitator": "of x402",
    "facilitator_alike_per_s": "x402 alike/s",
    "of_facilitator_alike": "of x402 alike",
    "worker_ms": "worker ms/payment",
    "sustained_per_s": "for a while/s",
    "waiting_before": "waiting before",
    "waiting_after": "waiting after",
}


def main() -> None:
    """Read what to measure, and measure it in an installation of its own."""
    parser = argparse.ArgumentParser(prog="make bench-settle", description=__doc__)
    parser.add_argument("--payments", type=int, default=3000, help="Payments of one measurement (default: 3000).")
    parser.add_argument("--rounds", type=int, default=3, help="Turns that each side has (default: 3).")
    parser.add_argument(
        "--sustained", type=float, default=60, help="Seconds for which payers ask as settlement keeps up (default: 60)."
    )
    parser.add_argument("--agents", type=int, default=100, help="Agents that pay (default: 100).")
    parser.add_argument("--connections", type=int, default=32, help="Connections that they share (default: 32).")
    parser.add_argument(
        "--x402-connections",
        type=int,
        default=128,
        help="Payments that x402's facilitator settles at once (default: 128, with which two cores are busy; 0: none).",
    )
    parser.add_argument("--history", type=int, default=100_000, help="Settled payments to add (default: 100000).")
    parser.add_argument(
        "--node", choices=(ANVIL, EMBEDDED), default=default_node(), help="Default: anvil if npm is there."
    )
    parser.add_argument("--json", type=Path, help="A file for the figures.")
    options = parser.parse_args()
    node = partial(evm_node, options.node)
    measure_apart("tests.benchmarks.settlement", _measure, options, beside=node, RELAYERS_PER_CHAIN=_RELAYERS)


def _measure(options: argparse.Namespace) -> dict[str, Any]:
    with ExitStack() as stack:
        facilitators = _start_facilitators(stack, options) if options.node == ANVIL else None
        found = _measure_or_say_why(
            facilitators,
            payments=options.payments,
            rounds=options.rounds,
            sustained=options.sustained,
            agents=options.agents,
            connections=options.connections,
            history=options.history,
        )
    if options.json:
        options.json.write_text(json.dumps({"node": options.node, **found}, indent=2) + "\n")
    fresh = found["by_settled_before"][0]
    names = [name for name in ("of_facilitator", "of_facilitator_alike") if name in fresh]
    return {
        **{f"settled_{name}": _figure(fresh[name], "") for name in names},
        "settled_of_raw": _figure(fresh["of_pays"], ""),
        "worker_ms": _figure(fresh["worker_ms"], "ms"),
        "settled_per_s": _figure(fresh["settled_per_s"], "/s"),
        "sustained_per_s": _figure(fresh["sustained_per_s"], "/s"),
        "settlement": {"node": options.node, **found},
    }


def _measure_or_say_why(*arguments: Any, **options: Any) -> dict[str, Any]:
    """Call `measure`; if signing was stopped meanwhile, say why."""
    from payments.models import ChainState

    try:
        return measure(*arguments, **options)
    except RuntimeError as error:
        reasons = ChainState.objects.exclude(stopped_reason="").values_list("stopped_reason", flat=True)
        raise RuntimeError(" ".join([str(error), *reasons])) from error


def _start_facilitators(stack: ExitStack, options: argparse.Namespace) -> "Facilitators | None":
    """Start x402's facilitator on the node of the product; None: it is not wanted, or cannot be installed."""
    from tests.benchmarks.facilitator.packages import PackagesUnavailable
    from tests.benchmarks.facilitator.processes import Facilitators

    if not options.x402_connections:
        return None
    try:
        facilitators = Facilitators(os.environ[RPC_URL], connections=options.x402_connections)
    except PackagesUnavailable as error:
        print(f"Nothing is measured beside x402's facilitator. {error}", flush=True)
        return None
    return stack.enter_context(facilitators)


def _figure(found: dict[str, float], unit: str) -> dict[str, Any]:
    """Shape a figure as `make bench` prints it."""
    return {"median": found["median"], "spread": [found["lowest"], found["highest"]], "unit": unit}


def measure(
    facilitators: "Facilitators | None" = None,
    *,
    payments: int = 3000,
    rounds: int = 3,
    sustained: float = 60,
    agents: int = 100,
    connections: int = 32,
    history: int = 0,
) -> dict[str, Any]:
    """Measure in this installation, and return each figure's median, lowest and highest, by what was settled before.

    Call it where Django is set up, with an EVM node of one's own: see `evm_nodes`.
    """
    from django.conf import settings

    from payments.models import Payment
    from payments.tasks import reconcile_chain, watch_deposits
    from services.models import Service
    from tests.benchmarks.raw import LOCALNET, RawSenders
    from tests.benchmarks.seed import seed, write_history
    from tests.benchmarks.sustained import sustain
    from tests.benchmarks.workers import Workers
    from tests.support.servers import Servers

    print(f"Making {agents} agents and {settings.RELAYERS_PER_CHAIN} accounts ...", flush=True)
    cast = seed(agents)
    raw = RawSenders(settings.RELAYERS_PER_CHAIN, Service.objects.get(pk=cast.service).address)
    # Before Solana is compared: what the escrow holds since just now covers what the agents were given.
    watch_deposits(LOCALNET)
    reconcile_chain(LOCALNET)
    found: list[dict[str, Any]] = []
    if facilitators:
        facilitators.time_settlements(_WARM_UP)
    with Servers() as servers:
        port = int(servers.urls[0].rpartition(":")[2])
        for more in dict.fromkeys((0, history)):
            if more:
                write_history(cast, more)
            with Workers() as workers:
                _wait_until_observed(workers)
                _pay(port, cast, workers, _WARM_UP, connections)
                before = Payment.objects.filter(status="settled").count()
                pay = partial(_pay, port, cast, workers, payments, connections)
                settle = partial(_settle, facilitators, payments, connections)
                turns = [
                    _take_turns(payments, raw, settle, pay)
                    | sustain(port, cast, connections=connections, seconds=sustained)
                    for _ in range(rounds)
                ]
            found.append({"settled_before": before, **_summarise(turns)})
            _show(found[-1])
    return {"payments": payments, "rounds": rounds, "connections": connections, "by_settled_before": found}


def _wait_until_observed(workers: "Workers") -> None:
    """Wait until the workers have looked at the chain: what was seen of it before may be too old to pay by."""
    from foundation.kernel.times import utc_now
    from payments.models import ChainState
    from tests.support.local_ids import LOCALNET

    began = utc_now()
    while not ChainState.objects.filter(chain=LOCALNET, observed_at__gte=began).exists():
        workers.check()
        time.sleep(_POLL_S)


def _take_turns(
    count: int, raw: "RawSenders", settle: "partial[dict[str, float]]", pay: "partial[tuple[float, float]]"
) -> dict[str, float]:
    """Give each side its turn."""
    transfers, beside = raw.time_transfers(count), settle()
    pays = raw.time_payments(count)
    settled, worker_ms = pay()
    return {
        "transfers_per_s": transfers,
        "pays_per_s": pays,
        "settled_per_s": settled,
        "of_transfers": settled / transfers,
        "of_pays": settled / pays,
        **{f"{name}_per_s": per_s for name, per_s in beside.items()},
        **{f"of_{name}": settled / per_s for name, per_s in beside.items()},
        "worker_ms": worker_ms,
    }


def _settle(facilitators: "Facilitators | None", count: int, connections: int) -> dict[str, float]:
    """Let x402's facilitator settle, if it is there; return payments per second."""
    if facilitators is None:
        return {}
    # Every block takes as many payments as there are connections: a few blocks tell.
    few = min(count, connections * _BLOCKS)
    return {
        "facilitator": facilitators.time_settlements(min(count, _MOST_FACILITATED)),
        "facilitator_alike": facilitators.time_settlements(few, connections),
    }


def _summarise(turns: Sequence[dict[str, float]]) -> dict[str, dict[str, float]]:
    said = {name: [turn[name] for turn in turns] for name in turns[0]}
    return {
        name: {"median": statistics.median(values), "lowest": min(values), "highest": max(values)}
        for name, values in said.items()
    }


def _show(found: dict[str, Any]) -> None:
    print(f"\nsettled before: {found['settled_before']}")
    for name, title in _FIGURES.items():
        if name not in found:
            continue
        one = found[name]
        print(f"{title:>18}  {one['median']:>8.2f}  ({one['lowest']:.2f} to {one['highest']:.2f})", flush=True)


def _pay(port: int, cast: "Cast", workers: "Workers", count: int, connections: int) -> tuple[float, float]:
    """Pay over HTTP until all is settled; return payments per second, and the workers' processor time of each in ms."""
    from payments.models import Payment
    from tests.benchmarks.load import request

    used_s, began = workers.processor_s(), time.perf_counter()
    request(port, cast.key, cast.service, cast.agents, count=count, connections=connections)
    while Payment.objects.filter(status="approved").exists():
        workers.check()
        if time.perf_counter() - began > _PATIENCE_S:
            raise RuntimeError("Not all payments are settled.")
        time.sleep(_POLL_S)
    elapsed = time.perf_counter() - began
    if Payment.objects.filter(status="failed").exists():
        raise RuntimeError("A payment failed.")
    return count / elapsed, 1000 * (workers.processor_s() - used_s) / count


if __name__ == "__main__":
    main()
