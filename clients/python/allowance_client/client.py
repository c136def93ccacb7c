"""The client's two faces. What they can do is written once, in `operations.py`; here each method is given its face."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from allowance_client.drivers import AsyncDriver, SyncDriver
from allowance_client.operations import Operations
from allowance_client.pages import Pages
from allowance_client.steps import Flow

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(
    operation: Callable[Concatenate[Operations, P], Flow[T]],
) -> Callable[Concatenate[SyncDriver, P], T]:
    @wraps(operation)
    def method(self: SyncDriver, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.run(operation(self.operations, *args, **kwargs))

    return method


def _awaited(
    operation: Callable[Concatenate[Operations, P], Flow[T]],
) -> Callable[Concatenate[AsyncDriver, P], Coroutine[Any, Any, T]]:
    @wraps(operation)
    async def method(self: AsyncDriver, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self.run(operation(self.operations, *args, **kwargs))

    return method


def _iterated(
    operation: Callable[Concatenate[Operations, P], Pages[T]],
) -> Callable[Concatenate[SyncDriver, P], Iterator[T]]:
    @wraps(operation)
    def method(self: SyncDriver, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return self.walk(operation(self.operations, *args, **kwargs))

    return method


def _iterated_async(
    operation: Callable[Concatenate[Operations, P], Pages[T]],
) -> Callable[Concatenate[AsyncDriver, P], AsyncIterator[T]]:
    @wraps(operation)
    def method(self: AsyncDriver, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        return self.walk(operation(self.operations, *args, **kwargs))

    return method


class Allowance(SyncDriver):
    """A client that blocks: `with Allowance(url, api_key) as allowance: allowance.pay(...)`."""

    me = _blocking(Operations.me)
    budget = _blocking(Operations.budget)
    evaluate = _blocking(Operations.evaluate)
    pay = _blocking(Operations.pay)
    pay_demand = _blocking(Operations.pay_demand)
    payment = _blocking(Operations.payment)
    payments = _iterated(Operations.payments)
    wait_settled = _blocking(Operations.wait_settled)
    wait_until_decided = _blocking(Operations.wait_until_decided)
    proof = _blocking(Operations.proof)
    services = _blocking(Operations.services)
    service = _blocking(Operations.service)
    register_service = _blocking(Operations.register_service)
    logs = _iterated(Operations.logs)
    log = _blocking(Operations.log)
    public_keys = _blocking(Operations.public_keys)


class AsyncAllowance(AsyncDriver):
    """A client that is awaited: `async with AsyncAllowance(url, api_key) as allowance: await allowance.pay(...)`."""

    me = _awaited(Operations.me)
    budget = _awaited(Operations.budget)
    evaluate = _awaited(Operations.evaluate)
    pay = _awaited(Operations.pay)
    pay_demand = _awaited(Operations.pay_demand)
    payment = _awaited(Operations.payment)
    payments = _iterated_async(Operations.payments)
    wait_settled = _awaited(Operations.wait_settled)
    wait_until_decided = _awaited(Operations.wait_until_decided)
    proof = _awaited(Operations.proof)
    services = _awaited(Operations.services)
    service = _awaited(Operations.service)
    register_service = _awaited(Operations.register_service)
    logs = _iterated_async(Operations.logs)
    log = _awaited(Operations.log)
    public_keys = _awaited(Operations.public_keys)
