"""Authorize payees to take a payment themselves (EIP-3009), with the escrow as signer (ERC-1271). Asks no node.

Both keys sign the token's digest, as both take part in any other payment: see `isValidSignature` in
chains/contracts/Escrow.sol. Source: docs/integrate/x402.md.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from chains.catalogue import ServedChain
from chains.evm.derivation import sign_digest
from chains.evm.escrow_calls import domain_separator, transfer_digest, transfer_words
from chains.evm.preparing import EvmPreparer
from chains.port import (
    AuthorizationTerms,
    AuthorizedBy,
    ChainUnavailable,
    Order,
    SignedAuthorization,
    TransactionPlan,
)
from foundation.kernel.money import from_base_units, to_base_units

# Nobody keeps a payee's promise open for longer than that of a payment through a relayer; the escrow allows an hour.
LONGEST_S = 900


class EvmAuthorizer:
    """Signs authorizations; see `TransferAuthorizer` for each method."""

    def __init__(self, served: ServedChain, preparer: EvmPreparer) -> None:
        self._served = served
        self._preparer = preparer

    def find_objection(self, order: Order, terms: AuthorizationTerms, state: Mapping[str, Any]) -> str | None:
        token = self._served.tokens.get(order.asset)
        if token is None or terms.token.lower() != token.lower():
            return f"The asset is not the {order.asset} that is served on {self._served.chain.alias}."
        limits = state.get("tokens", {}).get(order.asset, {}).get("authorizations")
        if limits is None:
            return (
                f"The escrow on {self._served.chain.alias} authorizes no payee to take {order.asset} itself: its owner "
                "has not allowed it (setAuthorizationLimits), or it is of an earlier release."
            )
        if self._separator(terms, token) != bytes.fromhex(limits["domain"]):
            return f"The EIP-712 domain of {order.asset} has another name or version than extra says."
        if to_base_units(order.amount, order.asset) > int(limits["most"]):
            most = from_base_units(int(limits["most"]), order.asset)
            return f"The escrow authorizes payees to take at most {most:f} {order.asset} at once."
        return None

    def authorize(self, plan: TransactionPlan, terms: AuthorizationTerms, now: datetime) -> SignedAuthorization:
        self._preparer.check(plan)
        (order,) = plan.orders
        if objection := self.find_objection(order, terms, plan.state):
            raise ChainUnavailable(objection)
        escrow, token = self._served.escrow, self._served.tokens[order.asset]
        units = to_base_units(order.amount, order.asset)
        valid_before = int(now.timestamp()) + min(terms.valid_s, LONGEST_S)
        words = transfer_words(token, order.recipient, units, valid_before, order.escrow_id)
        digest = transfer_digest(self._separator(terms, token), escrow, words)
        signed = words + sign_digest(self._preparer.key_of(plan.submitter), digest) + plan.signer.cosign_digest(digest)
        authorization = _describe(escrow, order, units, valid_before)
        payload = {"signature": "0x" + signed.hex(), "authorization": authorization}
        return SignedAuthorization(AuthorizedBy(escrow, token), payload, datetime.fromtimestamp(valid_before, UTC))

    def _separator(self, terms: AuthorizationTerms, token: str) -> bytes:
        return domain_separator(terms.name, terms.version, self._served.chain.chain_id, token)


def _describe(escrow: str, order: Order, units: int, valid_before: int) -> dict[str, str]:
    """Write an authorization as x402 does: numbers as strings."""
    return {
        "from": escrow,
        "to": order.recipient,
        "value": str(units),
        "validAfter": "0",
        "validBefore": str(valid_before),
        "nonce": order.escrow_id,
    }
