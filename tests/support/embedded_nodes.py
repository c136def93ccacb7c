"""The real chain, configured in other ways than it should be; and nodes that a chain would not run."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from django.conf import settings

from chains.catalogue import Chain, ServedChain, find_chain
from tests.support.local_ids import LOCALNET
from workshop.localnet.folder import open_folder

# Where nobody listens.
AWAY = "http://127.0.0.1:9"


def known(name: str) -> Chain:
    """Give a chain that is known."""
    chain = find_chain(name)
    assert chain, name
    return chain


def served(**changes: Any) -> ServedChain:
    """Configure the real chain as it is, but for some changes."""
    return replace(settings.CHAINS[LOCALNET], **changes)


def deployer_key() -> bytes:
    """Give the key of the account that owns the escrow and has the chain's coin."""
    return bytes.fromhex(open_folder().keys()["EVM_DEPLOYER_KEY"].removeprefix("0x"))


@contextmanager
def node_of_chain(chain_id: int) -> Iterator[str]:
    """Run a node that tells of which chain it is, and nothing else; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            calls = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            answers = [
                {"jsonrpc": "2.0", "id": one["id"], "result": hex(chain_id)}
                if one["method"] == "eth_chainId"
                else {"jsonrpc": "2.0", "id": one["id"], "error": {"code": -32601, "message": "unknown"}}
                for one in (calls if isinstance(calls, list) else [calls])
            ]
            body = json.dumps(answers if isinstance(calls, list) else answers[0]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
