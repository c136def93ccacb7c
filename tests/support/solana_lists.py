"""Payments of the whole product that are decided together, and share transactions on the embedded Solana chain."""

import base64
from collections.abc import Sequence

from solders.pubkey import Pubkey
from spl.token.instructions import get_associated_token_address

from foundation.kernel.assets import Asset
from payments.models import Payment
from services.models import Service
from tests.support.invariants import check_agent
from tests.support.localnets import SOLANA
from tests.support.scenes import transaction_of
from tests.support.together import pay_services

_NEWEST = {"commitment": "processed", "encoding": "base64"}
# Where a token account says in which state it is, and the state of a frozen one.
_STATE_AT, _FROZEN = 108, 2


def make_services(*assets: Asset) -> list[Service]:
    return [SOLANA.make_service(asset) for asset in assets]


def pay_together(services: Sequence[Service], amount: str = "1.25") -> list[Payment]:
    """Have agents of their own pay services, decided together; nothing is sent."""
    return pay_services(SOLANA, services, amount)


def open_accounts(*assets: Asset) -> list[Service]:
    """Make services that have been paid once, so that they have accounts, and the watcher knows them."""
    services = make_services(*assets)
    pay_together(services, "0.000001")
    SOLANA.drain()
    SOLANA.observe()
    return services


def txs_of(payments: Sequence[Payment]) -> list[str]:
    return [transaction_of(one).tx for one in payments]


def has(payment: Payment) -> int:
    """Read what the payee has, in base units."""
    return SOLANA.balance_of(Asset(payment.asset), payment.recipient)


def freeze(service: Service) -> None:
    """Freeze the account of a payee, as the issuer of its token can."""
    account = _account_of(service)
    found = SOLANA.rpc("getAccountInfo", account, _NEWEST)["value"]
    data = bytearray(base64.b64decode(found["data"][0]))
    data[_STATE_AT] = _FROZEN
    SOLANA.rpc("dev_setAccount", account, {**found, "data": [base64.b64encode(data).decode(), "base64"]})


def _account_of(service: Service) -> str:
    mint = Pubkey.from_string(SOLANA.token(Asset(service.asset)))
    program = Pubkey.from_string(SOLANA.rpc("getAccountInfo", str(mint), _NEWEST)["value"]["owner"])
    return str(get_associated_token_address(Pubkey.from_string(service.address), mint, program))


def check_all(payments: Sequence[Payment]) -> None:
    for one in payments:
        check_agent(one.agent_id)
