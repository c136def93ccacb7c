"""A shop whose page costs something, and the facilitator that it asks: both of the reference package of x402.

It runs where tests/benchmarks/facilitator/requirements.txt is installed, and imports nothing of ours. It takes
everything from its environment: RPC_URL, PRIVATE_KEY (of the account that submits), NETWORK, ASSET, PAY_TO, AMOUNT and
TIMEOUT_S. It listens on a port that is free, and prints the number of it.

`GET /report` is behind the package's middleware. `POST /verify` and `POST /settle` ask the facilitator alone.
"""

import os
import socket
from typing import Any

import uvicorn
from fastapi import FastAPI
from x402 import x402Facilitator, x402FacilitatorSync, x402ResourceServer
from x402.http.middleware.fastapi import payment_middleware
from x402.http.types import PaymentOption, RouteConfig
from x402.mechanisms.evm import FacilitatorWeb3Signer
from x402.mechanisms.evm.exact import ExactEvmServerScheme, register_exact_evm_facilitator
from x402.schemas import AssetAmount, SettleRequest

_EXTRA = {"name": "USD Coin", "version": "2"}


def _make_app() -> FastAPI:
    network = os.environ["NETWORK"]
    facilitator, alone = x402Facilitator(), x402FacilitatorSync()
    one: Any
    for one in (facilitator, alone):
        signer = FacilitatorWeb3Signer(os.environ["PRIVATE_KEY"], os.environ["RPC_URL"])
        register_exact_evm_facilitator(one, signer, networks=network)
    server: Any = x402ResourceServer(facilitator)
    server.register(network, ExactEvmServerScheme())
    price = AssetAmount(amount=os.environ["AMOUNT"], asset=os.environ["ASSET"], extra=_EXTRA)
    timeout_s = int(os.environ["TIMEOUT_S"])
    option = PaymentOption("exact", os.environ["PAY_TO"], price, network, max_timeout_seconds=timeout_s)
    app = FastAPI()
    app.middleware("http")(payment_middleware({"GET /report": RouteConfig(option)}, server))

    @app.get("/report")
    def report() -> dict[str, str]:
        return {"report": "what was paid for"}

    @app.post("/verify")
    def verify(request: SettleRequest) -> dict[str, Any]:
        result = alone.verify(request.payment_payload, request.payment_requirements)
        answer: dict[str, Any] = result.model_dump(by_alias=True, exclude_none=True)
        return answer

    @app.post("/settle")
    def settle(request: SettleRequest) -> dict[str, Any]:
        result = alone.settle(request.payment_payload, request.payment_requirements)
        answer: dict[str, Any] = result.model_dump(by_alias=True, exclude_none=True)
        return answer

    return app


def main() -> None:
    """Serve until the process is ended."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - whoever started this reads it
    uvicorn.Server(uvicorn.Config(_make_app(), log_level="warning", access_log=False)).run(sockets=[listener])


if __name__ == "__main__":
    main()
