"""A page that answers 402 is fetched and paid for by the Python client; see `shop` for who serves it."""

import secrets
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import httpx
from allowance_client import Allowance, DemandedPayment, PayingTransport
from allowance_client.errors import ClientError
from django.conf import settings

from chains.catalogue import ServedChain, find_chain
from chains.evm.derivation import address_of
from foundation.kernel.assets import Asset
from foundation.kernel.money import to_base_units
from owner.evm.calls import set_authorization_limits
from owner.evm.sending import Sender
from owner.keys import deposit_key
from payments.models import ChainState
from services.served_chains import evm_chain
from workshop.demo import ports
from workshop.demo.client import Api
from workshop.demo.processes import Processes
from workshop.demo.screen import Screen
from workshop.demo.seed import EVM

PRICE = "0.25"
# At most so much at once, as long as so much stays in the escrow: see docs/integrate/x402.md.
_MOST, _RESERVE = Decimal(1), Decimal(1000)
_PAGE = "/report"
_ISSUER = "USD Coin"  # the name in the EIP-712 domain of the local USDC
_GAS_WEI = 10**17
_PATIENCE_S, _POLL_S = 90, 0.1
# Of transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes), as a contract's code has it.
_SELECTOR = bytes.fromhex("cf092995")


def can_be_paid_for() -> bool:
    """Tell whether the local USDC can be taken by an authorization: that of an earlier release's data cannot."""
    chain = evm_chain(_served().chain.caip2)
    question = ("eth_getCode", _served().tokens[Asset.USDC], "latest")
    return bool(chain.nodes.read([question], lambda answers: _SELECTOR in bytes.fromhex(str(answers[0])[2:])))


def allow() -> None:
    """Let payees take USDC themselves, as the escrow's owner does (`owner_calls --x402`).

    Do it before the watcher first compares the chain: it looks at tokens once a minute.
    """
    if not can_be_paid_for():
        return
    most, reserve = (to_base_units(amount, Asset.USDC) for amount in (_MOST, _RESERVE))
    call = set_authorization_limits(_served().escrow, _served().tokens[Asset.USDC], most, reserve)
    sender = _owner()
    sender.send(bytes.fromhex(call.to.removeprefix("0x")), call.data, sender.next_nonce())


def _served() -> ServedChain:
    chain = find_chain(EVM)
    served: ServedChain = settings.CHAINS[chain.caip2 if chain else EVM]
    return served


def _owner() -> Sender:
    """Give the account that deployed the local escrow, and owns it: the customer's."""
    return Sender(evm_chain(_served().chain.caip2), deposit_key() or b"", lambda _: None)


class PaidPage:
    """Plays a payee of one run that answers 402 until it is paid. `recipient` is its address, CAIP-10."""

    def __init__(self, service: str, screen: Screen, api: Api, processes: Processes) -> None:
        self._service = service
        self._served = _served()
        self._address = address_of(secrets.token_bytes(32))
        self.recipient = f"{EVM}:{self._address.lower()}"
        self._screen = screen
        self._api = api
        self._processes = processes
        self._url = f"http://{ports.HOST}:{ports.pick()}"

    def open(self) -> None:
        """Start the payee's shop, with a facilitator that submits from an account of its own.

        Raises:
            TimeoutError: what the escrow's owner allows was not seen, or the shop does not answer.
        """
        facilitator = secrets.token_bytes(32)
        _owner().transfer({address_of(facilitator): _GAS_WEI})
        self._processes.run(self._service, "workshop.demo.shop", **self._variables(facilitator))
        self._wait(self._is_allowed)
        self._wait(self._is_open)
        self._screen.line(f"\n     {self._service} opens a page that costs {PRICE} USDC: {self._url}{_PAGE}")

    def fetch(self, agent: str, key: str) -> None:
        """Fetch the page by the client; the same purchase again pays nothing."""
        self._screen.step(f"{agent} fetches the page, which costs {PRICE} USDC", "200 after a 402, paid once")
        try:
            page = self._get(agent, key)
        except (ClientError, httpx.HTTPError) as error:
            self._screen.came(str(error), as_promised=False)
            return
        payment: DemandedPayment | None = page.extensions.get("allowance_payment")
        paid = f"paid {payment.amount} {payment.asset} once" if payment else "nothing paid"
        self._screen.came(f"{page.status_code}, {paid}", as_promised=page.is_success and payment is not None)
        if payment is not None:
            self._screen.detail(f"{payment.id}, {page.text}")
            self._settle(payment)

    def _get(self, agent: str, key: str) -> httpx.Response:
        with Allowance(self._api.url, self._api.key, agent) as allowance:
            most = to_base_units(Decimal(PRICE), Asset.USDC)
            transport = PayingTransport(allowance, {self._url: self._service}, most_units=most)
            with httpx.Client(transport=transport, timeout=_PATIENCE_S, trust_env=False) as http:
                return http.get(f"{self._url}{_PAGE}", extensions={"idempotency_key": key})

    def _settle(self, payment: DemandedPayment) -> None:
        self._screen.step("The payee's facilitator has taken the money", "settled, by a transaction of its own")
        state: dict[str, Any] = {}

        def is_final() -> bool:
            state.update(self._api.get(f"/v1/payments/{payment.id}").json())
            return bool(state["status"] != "approved")

        self._wait(is_final)
        self._screen.came(f"{state['status']}, tx {state['finalTx']}", as_promised=state["status"] == "settled")

    def _variables(self, key: bytes) -> dict[str, str]:
        return {
            "RPC_URL": self._served.rpc_urls[0],
            "PRIVATE_KEY": f"0x{key.hex()}",
            "NETWORK": self._served.chain.caip2,
            "ASSET": self._served.tokens[Asset.USDC],
            "ASSET_NAME": _ISSUER,
            "PAY_TO": self._address,
            "AMOUNT": str(to_base_units(Decimal(PRICE), Asset.USDC)),
            "PAGE": _PAGE,
            "PORT": self._url.rpartition(":")[2],
        }

    def _is_allowed(self) -> bool:
        """Tell whether the watcher has seen what the owner allowed."""
        state = ChainState.objects.get(chain=self._served.chain.caip2).state
        return state.get("tokens", {}).get(Asset.USDC, {}).get("authorizations") is not None

    def _is_open(self) -> bool:
        try:
            status = httpx.get(f"{self._url}{_PAGE}", timeout=_PATIENCE_S, trust_env=False).status_code
        except httpx.HTTPError:
            return False
        return status == httpx.codes.PAYMENT_REQUIRED

    def _wait(self, is_done: Callable[[], bool]) -> None:
        end = time.monotonic() + _PATIENCE_S
        while not is_done():
            self._processes.check()
            if time.monotonic() > end:
                raise TimeoutError(f"The shop of {self._service} is not ready after {_PATIENCE_S} s.")
            time.sleep(_POLL_S)
