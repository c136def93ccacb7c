"""Transports for httpx that pay what a 402 asks for (x402): `httpx.Client(transport=PayingTransport(...))`.

A request is sent; if its payee answers 402, the payment is asked for, and the request is sent once more with it. Each
request is one purchase under one idempotency key: that of its extension `idempotency_key`, or a new one.
"""

from collections.abc import Mapping
from typing import Any

import httpx

from allowance_client.client import Allowance, AsyncAllowance
from allowance_client.demands import DEMAND_HEADER, PAYMENT_HEADER, DemandedPayment, choose, read_demand
from allowance_client.errors import InvalidRequest
from allowance_client.requests import new_idempotency_key

# Of a request: its idempotency key. Of a response: the `DemandedPayment` that was made for it, if one was.
KEY_EXTENSION, PAYMENT_EXTENSION = "idempotency_key", "allowance_payment"
_PAYMENT_REQUIRED = 402


class _Terms:
    """Whom to pay, and how much at most for one request."""

    def __init__(self, services: Mapping[str, str], most_units: int, reason: str | None, decided_s: float) -> None:
        self._services = {_origin(httpx.URL(origin)): service for origin, service in services.items()}
        self._most_units = most_units
        self._reason = reason
        self._decided_s = decided_s

    def purchases(self, request: httpx.Request, response: httpx.Response) -> list[dict[str, Any]]:
        """Write what may be asked for, in the payee's order: nothing, where the answer stands as it is."""
        service = self._services.get(_origin(request.url))
        if response.status_code != _PAYMENT_REQUIRED or service is None or PAYMENT_HEADER in request.headers:
            return []
        # Without the query, which may hold what nobody else shall read: the reason is logged, and told to the payee.
        reason = self._reason or f"{request.method} {request.url.copy_with(query=None, fragment=None, userinfo=b'')}"
        key = request.extensions.get(KEY_EXTENSION) or new_idempotency_key()
        purchase = {"service": service, "reason": reason, "idempotency_key": key}
        return [
            {**purchase, "requirements": one, "wait_until_decided_s": self._decided_s}
            for one in choose(read_demand(response.headers.get(DEMAND_HEADER)), self._most_units)
        ]


class PayingTransport(httpx.BaseTransport):
    """Pays the 402 of the payees that are named, and of no others.

    `services`: the service id of each payee, by origin (`{"https://reports.example": "reports"}`). `most_units`: the
    most to be paid for one request, in base units of the token, as 402s state amounts (1 USDC is 1_000_000). `reason`:
    for the log; else method and address, without its query. `transport`: what sends the requests.
    `wait_until_decided_s`: how long to wait where a person has to approve a payment.

    Raises `ClientError`: no payment was approved; its `idempotency_key` is that of the purchase. It is
    `ApprovalPending` while a person has to approve it: send the same request later, with that key.
    """

    def __init__(
        self,
        allowance: Allowance,
        services: Mapping[str, str],
        *,
        most_units: int,
        reason: str | None = None,
        wait_until_decided_s: float = 0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._allowance = allowance
        self._terms = _Terms(services, most_units, reason, wait_until_decided_s)
        self._transport = httpx.HTTPTransport() if transport is None else transport

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not isinstance(request.stream, httpx.ByteStream):
            request.read()  # it may have to be sent twice
        response = self._transport.handle_request(request)
        purchases = self._terms.purchases(request, response)
        if not purchases:
            return response
        response.close()
        payment = self._pay(purchases)
        return _with_payment(self._transport.handle_request(_paid(request, payment)), payment)

    def close(self) -> None:
        self._transport.close()

    def _pay(self, purchases: list[dict[str, Any]]) -> DemandedPayment:
        for one in purchases[:-1]:
            try:
                return self._allowance.pay_demand(**one)
            except InvalidRequest as error:
                _raise_unless_not_served(error)
        return self._allowance.pay_demand(**purchases[-1])


class AsyncPayingTransport(httpx.AsyncBaseTransport):
    """`PayingTransport` for `httpx.AsyncClient` and `AsyncAllowance`."""

    def __init__(
        self,
        allowance: AsyncAllowance,
        services: Mapping[str, str],
        *,
        most_units: int,
        reason: str | None = None,
        wait_until_decided_s: float = 0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._allowance = allowance
        self._terms = _Terms(services, most_units, reason, wait_until_decided_s)
        self._transport = httpx.AsyncHTTPTransport() if transport is None else transport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not isinstance(request.stream, httpx.ByteStream):
            await request.aread()
        response = await self._transport.handle_async_request(request)
        purchases = self._terms.purchases(request, response)
        if not purchases:
            return response
        await response.aclose()
        payment = await self._pay(purchases)
        return _with_payment(await self._transport.handle_async_request(_paid(request, payment)), payment)

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _pay(self, purchases: list[dict[str, Any]]) -> DemandedPayment:
        for one in purchases[:-1]:
            try:
                return await self._allowance.pay_demand(**one)
            except InvalidRequest as error:
                _raise_unless_not_served(error)
        return await self._allowance.pay_demand(**purchases[-1])


def _raise_unless_not_served(error: InvalidRequest) -> None:
    """Go on to what else the payee accepts only where this was not served: nothing is stored then."""
    if [name for name, _ in error.fields] != ["paymentRequirements"]:
        raise error


def _paid(request: httpx.Request, payment: DemandedPayment) -> httpx.Request:
    headers = request.headers.copy()
    headers[PAYMENT_HEADER] = payment.header
    return httpx.Request(
        request.method, request.url, headers=headers, stream=request.stream, extensions=request.extensions
    )


def _with_payment(response: httpx.Response, payment: DemandedPayment) -> httpx.Response:
    response.extensions = {**response.extensions, PAYMENT_EXTENSION: payment}
    return response


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
