"""The protocol by which a payee takes a payment itself: the escrow authorizes one transfer, until a moment (x402)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from chains.port.preparing import TransactionPlan
from chains.port.transactions import AuthorizedBy, Order


@dataclass(frozen=True, slots=True)
class AuthorizationTerms:
    """What a payee says of the authorization that it wants.

    `token` is an address; `name` and `version` are those of the token's EIP-712 domain. It wants it for `valid_s`
    seconds at most.
    """

    token: str
    name: str
    version: str
    valid_s: int


@dataclass(frozen=True, slots=True)
class SignedAuthorization:
    """An authorization, signed with both keys. `payload` is what x402 calls so: whoever has it may submit it.

    The chain refuses it from `valid_until` on, by its own time.
    """

    by: AuthorizedBy
    payload: Mapping[str, Any]
    valid_until: datetime


class TransferAuthorizer(Protocol):
    """Signs authorizations without asking any node."""

    def find_objection(self, order: Order, terms: AuthorizationTerms, state: Mapping[str, Any]) -> str | None:
        """Say in a sentence why an order cannot be authorized on these terms; None: it can.

        `state` is the observed state of the chain.
        """

    def authorize(self, plan: TransactionPlan, terms: AuthorizationTerms, now: datetime) -> SignedAuthorization:
        """Authorize the payee of a plan's only payment to take it, once; the submitter signs, and submits nothing.

        Raises:
            ChainUnavailable: there is an objection, or the asset is not served now.
            SignerUnavailable: the policy signer did not sign.
        """
