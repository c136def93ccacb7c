"""`make bench`: payments per second over HTTP, next to what PostgreSQL alone does with the same rows.

Both run on the same machine, database, tables and agents, in turns, so that the ratio means something where the
numbers alone do not. Over HTTP everything is real: authentication, policy, EIP-712 co-signing, transaction signing,
receipt signing, durable commits. Settlement does not run meanwhile: it is another process' work.
"""

import argparse
import re
import statistics
import subprocess
import tempfile

from tests.benchmarks.apart import measure_apart


def main() -> None:
    """Read what to measure, and measure it in an installation of its own."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8, help="Length of one measurement (default: 8).")
    parser.add_argument("--rounds", type=int, default=3, help="Turns that each side has (default: 3).")
    parser.add_argument("--agents", type=int, default=1000, help="Agents that pay (default: 1000).")
    parser.add_argument("--connections", type=int, nargs="+", default=[8, 32], help="Default: 8 32.")
    options = parser.parse_args()
    measure_apart("tests.benchmarks.money_path", _measure, options, CHAIN_STATE_MAX_AGE_S="86400")


def _measure(options: argparse.Namespace) -> None:
    from django.core.management import call_command

    from tests.benchmarks.load import drive
    from tests.benchmarks.seed import seed
    from tests.support.servers import Servers

    print(f"Making {options.agents} agents ...", flush=True)
    cast = seed(options.agents)
    with Servers(count=1) as servers:
        port = int(servers.urls[0].rpartition(":")[2])
        drive(port, cast.key, cast.service, cast.agents, connections=8, seconds=3)  # warm up
        print(f"\n{'connections':>11}  {'HTTP payments/s':>15}  {'pgbench tx/s':>12}  {'ratio':>5}")
        for connections in options.connections:
            http, alone = [], []
            for _ in range(options.rounds):
                http.append(
                    drive(port, cast.key, cast.service, cast.agents, connections=connections, seconds=options.seconds)
                )
                alone.append(_pgbench(connections, options.seconds, cast.service, len(cast.agents)))
            ratio = statistics.median(http) / statistics.median(alone)
            numbers = f"{statistics.median(http):>15.0f}  {statistics.median(alone):>12.0f}  {ratio:>5.2f}"
            print(f"{connections:>11}  {numbers}", flush=True)
    call_command("verify_log", "--agent", cast.agents[0])


def _pgbench(connections: int, seconds: float, service: str, agents: int) -> float:
    from django.db import connection

    from localnet import postgres

    settings = connection.settings_dict
    # Agents of its own, so that the log of those that pay over HTTP stays what it is; a relayer for each client.
    script = (
        f"\\set agent random(1, {agents})\n\\set relayer :client_id % 16\n"
        f"SELECT bench_write_payment('baseline-' || :agent, '{service}',"
        " (SELECT id FROM payments_relayer WHERE chain = 'eip155:31337' AND number = :relayer));\n"
    )
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(script)
        file.flush()
        output = subprocess.run(
            [
                postgres.binary("pgbench"), "--no-vacuum", "--file", file.name, "--client", str(connections),
                "--jobs", "2", "--time", str(round(seconds)), "--protocol", "prepared",
                "--host", settings["HOST"], "--port", str(settings["PORT"] or 5432), "--username", settings["USER"],
                settings["NAME"],
            ],
            check=True, capture_output=True, text=True,
        ).stdout  # fmt: skip
    found = re.search(r"tps = ([0-9.]+) \(without", output)
    if found is None:
        raise RuntimeError(output)
    return float(found[1])


if __name__ == "__main__":
    main()
