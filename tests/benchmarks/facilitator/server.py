"""x402's facilitator behind HTTP, in the manner of its own example; it runs where requirements.txt is installed.

It takes everything from its environment: RPC_URL, PRIVATE_KEY (of the account that sends the transactions), NETWORK,
and THREADS. It listens on a port that is free, and prints the number of it.

The example awaits x402Facilitator in the event loop. But settling is synchronous inside: it looks for the receipt until
the transaction is in a block, and meanwhile the loop does nothing else: that is one payment per block. So this takes
the package's other class, x402FacilitatorSync, and FastAPI calls it in as many threads as are wanted; the package's
signer hands out its nonces under a lock.
"""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
import uvicorn
from fastapi import FastAPI, Response
from x402 import x402FacilitatorSync
from x402.mechanisms.evm import FacilitatorWeb3Signer
from x402.mechanisms.evm.exact import register_exact_evm_facilitator
from x402.schemas import SettleRequest

_BACKLOG = 1024
_KEEP_ALIVE_S = 600  # whoever measures keeps connections that have had their last answer


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    anyio.to_thread.current_default_thread_limiter().total_tokens = int(os.environ["THREADS"])
    yield


def _make_app() -> FastAPI:
    signer = FacilitatorWeb3Signer(os.environ["PRIVATE_KEY"], os.environ["RPC_URL"])
    facilitator = x402FacilitatorSync()
    register_exact_evm_facilitator(facilitator, signer, networks=os.environ["NETWORK"])
    app = FastAPI(lifespan=_lifespan)

    @app.post("/settle")
    def settle(request: SettleRequest, response: Response) -> dict[str, Any]:
        result = facilitator.settle(request.payment_payload, request.payment_requirements)
        # The example answers 200 to failures, too; whoever measures looks at nothing but the status.
        response.status_code = 200 if result.success else 502
        answer: dict[str, Any] = result.model_dump(by_alias=True, exclude_none=True)
        return answer

    return app


def main() -> None:
    """Serve until the process is ended."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
    # Connections wait in the backlog until the server takes them: whoever reads the number can connect.
    print(listener.getsockname()[1], flush=True)
    options: dict[str, Any] = {"timeout_keep_alive": _KEEP_ALIVE_S, "log_level": "warning", "access_log": False}
    server = uvicorn.Server(uvicorn.Config(_make_app(), **options))
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
