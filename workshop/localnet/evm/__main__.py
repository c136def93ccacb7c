"""Run the node: `python -m workshop.localnet.evm --data DIR --port N --faucet ADDRESS`."""

import argparse
import logging
import os
import sqlite3
import sys
import time
from pathlib import Path

from eth_typing import Address
from eth_utils.address import is_address, to_canonical_address

from workshop.localnet.evm import CHAIN_ID
from workshop.localnet.evm.chain import LocalChain
from workshop.localnet.evm.database import Database
from workshop.localnet.evm.methods import METHODS
from workshop.localnet.evm.node import FINALITY_BLOCKS, HEARTBEAT_S, Node
from workshop.localnet.jsonrpc.protocol import Protocol
from workshop.localnet.jsonrpc.server import Server, serve


def main(arguments: list[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT and return the exit code."""
    options = _parser().parse_args(arguments)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    options.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.environ["ECC_BACKEND_CLASS"] = (
        "workshop.localnet.evm.secp256k1.Libsecp256k1"  # where eth_keys looks, at the first signature
    )
    try:
        database = Database(options.data / "chain.sqlite3")
    except sqlite3.OperationalError as error:
        sys.stderr.write(f"{options.data}: {error}; does another node use it?\n")
        return 1
    chain = LocalChain(database, faucet=options.faucet, now_s=int(time.time()))
    node = Node(chain)
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
        prog="python -m workshop.localnet.evm",
        description=f"A development EVM node: chain id {CHAIN_ID}, JSON-RPC on 127.0.0.1, "
        f"a block per second while something waits or is not final, else every {HEARTBEAT_S} s; "
        f"`finalized` is {FINALITY_BLOCKS} blocks behind `latest`.",
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="where the chain is kept")
    parser.add_argument("--port", type=int, required=True, help="port to listen on")
    parser.add_argument(
        "--faucet",
        type=_address,
        default="0x" + "00" * 19 + "01",
        metavar="ADDRESS",
        help="who owns all ether of a new chain",
    )
    return parser


def _address(text: str) -> Address:
    if not is_address(text):
        raise argparse.ArgumentTypeError(f"{text} is not an address")
    return to_canonical_address(text)


if __name__ == "__main__":
    sys.exit(main())
