"""Run the node: `python -m workshop.localnet.solana --data DIR --port N --faucet ADDRESS`."""

import argparse
import logging
import sqlite3
import sys
import time
from pathlib import Path

from solders.pubkey import Pubkey

from workshop.localnet.jsonrpc.protocol import Protocol
from workshop.localnet.jsonrpc.server import Server, serve
from workshop.localnet.solana import GENESIS_HASH
from workshop.localnet.solana.chain import BEHIND, Chain
from workshop.localnet.solana.database import Database
from workshop.localnet.solana.methods import METHODS
from workshop.localnet.solana.node import Node
from workshop.localnet.solana.slots import SLOT_MS


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT and return the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        database = Database(options.data / "chain.sqlite3")
    except sqlite3.OperationalError as error:
        sys.stderr.write(f"{options.data}: {error}; does another node use it?\n")
        return 1
    node = Node(Chain(database, faucet=options.faucet, now_ms=int(time.time() * 1000)))
    try:
        server = Server(Protocol(node, METHODS), options.port)
    except OSError as error:
        sys.stderr.write(f"127.0.0.1:{options.port}: {error.strerror}\n")
        return 1
    serve(server, node.run)
    database.close()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m workshop.localnet.solana",
        description=f"A development Solana node: genesis hash {GENESIS_HASH}, JSON-RPC on 127.0.0.1, a slot every "
        f"{SLOT_MS} ms; `confirmed` is {BEHIND['confirmed']} block behind `processed`, `finalized` is "
        f"{BEHIND['finalized']}.",
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="where the chain is kept")
    parser.add_argument("--port", type=int, required=True, help="port to listen on")
    parser.add_argument(
        "--faucet",
        type=_address,
        required=True,
        metavar="ADDRESS",
        help="who has plenty of SOL on a new chain",
    )
    return parser


def _address(text: str) -> Pubkey:
    try:
        return Pubkey.from_string(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text} is not an address") from None


if __name__ == "__main__":
    sys.exit(main())
