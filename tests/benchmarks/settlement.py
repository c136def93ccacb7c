"""`make bench-settle`: payments per second from HTTP request to `settled`, next to what the node alone can do.

All run on the same machine and node in turns, so that the ratios mean something where the numbers alone do not. Raw:
pre-signed transactions from as many accounts as there are relayers, in JSON-RPC batches, until all are final; plain
ERC-20 transfers, and the very calls of the escrow that the product sends, which need twice the gas. The product:
everything is real (HTTP, policy, co-signing, durable commits, workers and beat as the Procfile starts them), until
the last payment is `settled`; on this machine it shares the processors with the node.
"""

import argparse
import statistics
import time
from functools import partial
from typing import TYPE_CHECKING

from tests.benchmarks.apart import measure_apart
from tests.benchmarks.evm_nodes import ANVIL, EMBEDDED, default_node, evm_node

if TYPE_CHECKING:
    from tests.benchmarks.raw import RawSenders
    from tests.benchmarks.seed import Cast
    from tests.benchmarks.workers import Workers

_POLL_S = 0.1
_PATIENCE_S = 600
_WARM_UP = 200


def main() -> None:
    """Read what to measure, and measure it in an installation of its own."""
    parser = argparse.ArgumentParser(prog="make bench-settle", description=__doc__)
    parser.add_argument("--payments", type=int, default=1000, help="Payments of one measurement (default: 1000).")
    parser.add_argument("--rounds", type=int, default=3, help="Turns that each side has (default: 3).")
    parser.add_argument("--agents", type=int, default=100, help="Agents that pay (default: 100).")
    parser.add_argument("--connections", type=int, default=4, help="Connections that they share (default: 4).")
    parser.add_argument("--history", type=int, default=100_000, help="Settled payments to add (default: 100000).")
    parser.add_argument(
        "--node", choices=(ANVIL, EMBEDDED), default=default_node(), help="Default: anvil if npm is there."
    )
    options = parser.parse_args()
    measure_apart("tests.benchmarks.settlement", _measure, options, beside=partial(evm_node, options.node))


def _measure(options: argparse.Namespace) -> None:
    from django.conf import settings

    from payments.models import Payment
    from services.models import Service
    from tests.benchmarks.raw import RawSenders
    from tests.benchmarks.seed import seed, write_history
    from tests.benchmarks.workers import Workers
    from tests.support.servers import Servers

    print(f"Making {options.agents} agents and {settings.RELAYERS_PER_CHAIN} accounts ...", flush=True)
    cast = seed(options.agents)
    raw = RawSenders(settings.RELAYERS_PER_CHAIN, Service.objects.get(pk=cast.service).address)
    print(f"\n{'settled before':>14}  {'transfers/s':>11}  {'pays/s':>6}  {'settled/s':>9}", end="")
    print(f"  {'of transfers':>12}  {'of pays':>7}  {'worker ms/payment':>17}", flush=True)
    with Servers(count=1) as servers:
        port = int(servers.urls[0].rpartition(":")[2])
        for history in (0, options.history):
            if history:
                write_history(cast, history)
            with Workers() as workers:
                _pay(port, cast, workers, _WARM_UP, options.connections)
                before = Payment.objects.filter(status="settled").count()
                print(f"{before:>14}  {_compare(options, port, cast, raw, workers)}", flush=True)


def _compare(options: argparse.Namespace, port: int, cast: "Cast", raw: "RawSenders", workers: "Workers") -> str:
    """Give each side its turns, and describe the medians."""
    transfers, pays, settled, costs_ms = [], [], [], []
    for _ in range(options.rounds):
        transfers.append(raw.time_transfers(options.payments))
        pays.append(raw.time_payments(options.payments))
        rate, cost_ms = _pay(port, cast, workers, options.payments, options.connections)
        settled.append(rate)
        costs_ms.append(cost_ms)
    rates = [statistics.median(one) for one in (transfers, pays, settled)]
    numbers = f"{rates[0]:>11.0f}  {rates[1]:>6.0f}  {rates[2]:>9.0f}"
    ratios = f"{rates[2] / rates[0]:>12.2f}  {rates[2] / rates[1]:>7.2f}"
    return f"{numbers}  {ratios}  {statistics.median(costs_ms):>17.1f}"


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
