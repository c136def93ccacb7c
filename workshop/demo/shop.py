"""A page that costs something, behind x402's own middleware, and the facilitator that it asks: of the package `x402`.

It is a process of its own, `python -m workshop.demo.shop`, and knows nothing of this installation. It takes everything
from its environment: RPC_URL, PRIVATE_KEY (of the account that submits), NETWORK, ASSET, ASSET_NAME, PAY_TO, AMOUNT,
PORT and PAGE, the path.
"""

import os
from typing import Any

import uvicorn
from fastapi import FastAPI
from x402 import x402Facilitator, x402ResourceServer
from x402.http.middleware.fastapi import payment_middleware
from x402.http.types import PaymentOption, RouteConfig
from x402.mechanisms.evm import FacilitatorWeb3Signer
from x402.mechanisms.evm.exact import ExactEvmServerScheme, register_exact_evm_facilitator
from x402.schemas import AssetAmount

_DOMAIN_VERSION = "2"  # of the token's EIP-712 domain, as USDC has it
_TIMEOUT_S = 60


def _make_app(said: "os._Environ[str]") -> FastAPI:
    network, facilitator = said["NETWORK"], x402Facilitator()
    signer = FacilitatorWeb3Signer(said["PRIVATE_KEY"], said["RPC_URL"])
    register_exact_evm_facilitator(facilitator, signer, networks=network)
    server: Any = x402ResourceServer(facilitator)  # its types and those of its schemes do not fit each other
    server.register(network, ExactEvmServerScheme())  # type: ignore[no-untyped-call]
    extra = {"name": said["ASSET_NAME"], "version": _DOMAIN_VERSION}
    price = AssetAmount(amount=said["AMOUNT"], asset=said["ASSET"], extra=extra)
    option = PaymentOption("exact", said["PAY_TO"], price, network, max_timeout_seconds=_TIMEOUT_S)
    app = FastAPI()
    app.middleware("http")(payment_middleware({f"GET {said['PAGE']}": RouteConfig(option)}, server))

    @app.get(said["PAGE"])
    def report() -> dict[str, str]:
        return {"report": "what was paid for"}

    return app


if __name__ == "__main__":
    uvicorn.run(_make_app(os.environ), host="127.0.0.1", port=int(os.environ["PORT"]), log_level="warning")
