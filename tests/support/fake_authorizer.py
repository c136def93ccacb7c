"""The part of a fake chain that lets payees take payments (x402)."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from chains.port import (
    AuthorizationTerms,
    AuthorizedBy,
    ChainUnavailable,
    Order,
    SignedAuthorization,
    TransactionPlan,
)
from tests.support.scripted_chain import ScriptedChain

ESCROW = "0x" + "11" * 20
LONGEST = timedelta(minutes=15)


class FakeAuthorizer:
    """Authorizes whatever `chain` has no objection to, which a test may write into its `demand_objection`."""

    def __init__(self, chain: ScriptedChain) -> None:
        self._chain = chain

    def find_objection(self, order: Order, terms: AuthorizationTerms, state: Mapping[str, Any]) -> str | None:
        return self._chain.demand_objection

    def authorize(self, plan: TransactionPlan, terms: AuthorizationTerms, now: datetime) -> SignedAuthorization:
        (order,) = plan.orders
        if self._chain.is_unprepared:
            raise ChainUnavailable("It cannot be prepared now.")
        until = (now + min(LONGEST, timedelta(seconds=terms.valid_s))).replace(microsecond=0)
        authorization = {
            "from": ESCROW,
            "to": order.recipient,
            "value": str(int(order.amount.scaleb(order.asset.decimals))),
            "validAfter": "0",
            "validBefore": str(int(until.timestamp())),
            "nonce": order.escrow_id,
        }
        signature = "0x" + plan.signer.cosign_digest(bytes.fromhex(order.escrow_id[2:])).hex()
        payload = {"signature": signature, "authorization": authorization}
        return SignedAuthorization(AuthorizedBy(ESCROW, terms.token), payload, until)
