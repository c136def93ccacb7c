"""Start, list and stop the local servers: `python -m workshop.localnet start | status | stop`."""

import argparse
import signal
import sys
import time

from workshop.localnet import evm_server, postgres, redis_server, servers, solana_server
from workshop.localnet.errors import LocalnetError
from workshop.localnet.folder import Folder, open_folder

_WATCH_S = 1


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return the exit code."""
    options = _parser().parse_args(arguments)
    commands = {"start": _start, "status": _status, "stop": _stop}
    try:
        return commands[options.command](open_folder(), options)
    except LocalnetError as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m workshop.localnet",
        description="PostgreSQL, Redis, an EVM chain and a Solana chain on this machine. Their data are in .data of "
        "the checkout, or in the folder that EMBEDDED_DIR names.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="start the servers and claim them until Ctrl-C")
    start.add_argument("--evm-faucet", required=True, metavar="ADDRESS", help="who owns all ether of a new EVM chain")
    start.add_argument("--solana-faucet", required=True, metavar="ADDRESS", help="who has SOL on a new Solana chain")
    commands.add_parser("status", help="list the servers and the URLs of those that run")
    commands.add_parser("stop", help="stop the servers, unless a process has a claim on them")
    return parser


def _start(folder: Folder, options: argparse.Namespace) -> int:
    # Without this SIGTERM would end the process before it lets go of its claim.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with servers.starting(folder):
        postgres.ensure(folder, _progress)
        redis_server.ensure(folder, _progress)
        evm_server.ensure(folder, options.evm_faucet, _progress)
        solana_server.ensure(folder, options.solana_faucet, _progress)
    _status(folder, options)
    try:
        while True:
            time.sleep(_WATCH_S)
    except KeyboardInterrupt:
        return 0


def _status(folder: Folder, _options: argparse.Namespace) -> int:
    for server in servers.SERVERS:
        daemon = server.daemon(folder)
        sys.stdout.write(f"{daemon.name}: {server.url(folder) if daemon.is_running() else 'not running'}\n")
    sys.stdout.flush()
    return 0


def _stop(folder: Folder, _options: argparse.Namespace) -> int:
    if servers.stop_unused(folder):
        return 0
    sys.stderr.write("The servers are in use: end the processes that claim them first.\n")
    return 1


def _progress(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
