"""What one process after the other does with an installation whose backup is restored in between.

`manage.py shell` runs some acts; the last line that it prints is JSON. The chain is what the environment's CHAIN names.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from foundation.kernel.assets import Asset
from foundation.kernel.errors import ContractError
from foundation.kernel.money import format_amount
from ledger.models import LevelPayment
from ledger.operations import fund_agent
from payments.deciding.operations import request_payment
from payments.environment import payment_environment
from payments.lifecycle import PaymentStatus
from payments.models import Payment
from policy.limits import Limits, under
from policy.models import Agent
from policy.operations import create_agent, switch_signer
from services.models import Service
from tests.support.factories import make_service
from tests.support.fake_chain import PATIENCE_S
from tests.support.localnets import LOCALNETS
from tests.support.payment_requests import make_request

_AGENT, _PARENT = "customer", "company"


def act(*acts: tuple[str, ...]) -> None:
    """Do one thing after the other, each named with its arguments, and print what came of each."""
    sys.stdout.write(json.dumps([_ACTS[what](*arguments) for what, *arguments in acts]) + "\n")


def _prepare() -> dict[str, Any]:
    """Make an agent with money within the budget of another one, its payee, and have the chain observed."""
    switch_signer(is_signing=True, by="test")
    limits = Limits(Decimal(100), Decimal(100), Decimal(100), None)
    create_agent(_PARENT, asset=Asset.USDC, limits=limits, by="test")
    create_agent(_AGENT, asset=Asset.USDC, limits=under(_PARENT, limits), by="test")
    fund_agent(_AGENT, amount=Decimal(100), by="test", chain=_localnet().caip2)
    make_service(recipient=f"{_localnet().alias}:{_localnet().new_address()}")
    _localnet().observe()
    return {}


def _pay(key: str, amount: str) -> dict[str, Any]:
    """Have a payment approved, and follow it until it is settled."""
    approved = _ask(key, amount)
    deadline = time.monotonic() + PATIENCE_S
    while Payment.objects.get(pk=approved["id"]).status == PaymentStatus.APPROVED:
        assert time.monotonic() < deadline, "it does not come to an end"
        _localnet().send()
        _localnet().mine()
        _localnet().follow()
    return {**approved, "status": Payment.objects.get(pk=approved["id"]).status}


def _bury() -> dict[str, Any]:
    """Let so many blocks pass that a search records what was paid before them."""
    return {"reached": _localnet().bury()}


def _ask(key: str, amount: str) -> dict[str, Any]:
    """Ask for a payment as an agent does, while the watcher looks at the chain from time to time."""
    _localnet().observe()
    return _rush(key, amount)


def _rush(key: str, amount: str) -> dict[str, Any]:
    """Ask for a payment before the watcher has looked at the chain."""
    environment = replace(payment_environment(), wake=lambda _chain: None)
    request = make_request(Agent.objects.get(pk=_AGENT), Service.objects.get(), amount, key)
    try:
        entry = request_payment(request, environment).entry
    except ContractError as error:
        return {"refused": error.code, "message": str(error)}
    payment = Payment.objects.get(pk=entry.payment_id)
    return {"id": payment.pk, "escrowId": payment.escrow_id}


def _balance() -> dict[str, Any]:
    """Read what the payee has on the chain, and the agent in the ledger."""
    units = _localnet().balance_of(Asset.USDC, Service.objects.get().address)
    return {"payee": units, "agent": format_amount(Agent.objects.get(pk=_AGENT).balance)}


def _counted() -> dict[str, Any]:
    """Read what the agent above counts of payments, and which agents are above that one's child."""
    amounts = LevelPayment.objects.filter(level=_PARENT).order_by("number").values_list("amount", flat=True)
    return {"counted": [format_amount(one) for one in amounts], "above": Agent.objects.get(pk=_AGENT).ancestors}


def _localnet() -> Any:
    return next(one for one in LOCALNETS if one.alias == os.environ["CHAIN"])


_ACTS: dict[str, Callable[..., dict[str, Any]]] = {
    "prepare": _prepare, "pay": _pay, "bury": _bury, "ask": _ask, "rush": _rush, "balance": _balance,
    "counted": _counted,
}  # fmt: skip
