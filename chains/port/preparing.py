"""The protocols that prepare transactions: they sign, and ask no node."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from chains.port.signer import PaymentSigner
from chains.port.transactions import (
    Order,
    SignedTransaction,
    Submitter,
)


class Preparer(Protocol):
    """Signs payments. `configuration` names the configuration: what was observed for another one is not signed by."""

    configuration: str

    def escrow_id(self, payment_id: str, key_hash: bytes) -> str:
        """Choose the id by which the chain knows a payment; `key_hash` (32 bytes) stands for its idempotency key.

        Where the escrow itself pays each id once, that is the hash: so one key is paid once, whatever we remember.
        """

    def prepare(
        self,
        order: Order,
        submitter: Submitter,
        state: Mapping[str, Any],
        now: datetime,
        signer: PaymentSigner,
        *,
        payee: Mapping[str, Any] | None = None,
    ) -> SignedTransaction:
        """Co-sign and sign the transaction of a payment from what the watcher saw of the chain and of the payee.

        `payee` is None if nothing was seen of it.

        Raises:
            ChainUnavailable: the asset is not served here, or the payee cannot be paid so now.
            SignerUnavailable: the policy signer did not co-sign.
        """

    def find_most_cost(self, order: Order, state: Mapping[str, Any], payee: Mapping[str, Any] | None) -> Decimal:
        """Find the most that the transaction of a payment costs if it is prepared now, in units of the chain's coin.

        Raises:
            ChainUnavailable: as `prepare` does.
        """

    def relayer_address(self, number: int) -> str:
        """Derive the address of a relayer."""

    def spends_from_escrow(self, raw: bytes) -> bool:
        """Tell whether a transaction, as it was signed, takes something out of the escrow that is configured."""


class NonceAdapter(Protocol):
    """What a chain must be able to do beside the rest if its accounts use up nonces, each one after the one before.

    Its escrow counts payments: it pays each id once, up to a deadline, and can mark one as used without paying it.
    """

    def prepare_void(
        self, escrow_id: str, submitter: Submitter, state: Mapping[str, Any], signer: PaymentSigner
    ) -> SignedTransaction:
        """Co-sign and sign a transaction that has the escrow mark an id as used without paying it.

        Raises:
            ChainUnavailable, SignerUnavailable: as `Preparer.prepare` does.
        """

    def prepare_filler(self, submitter: Submitter, state: Mapping[str, Any]) -> SignedTransaction:
        """Sign a transaction that moves nothing and only uses up a nonce, so that later ones can be included."""

    def raise_fee(self, raw: bytes, submitter: Submitter, state: Mapping[str, Any]) -> SignedTransaction | None:
        """Sign a transaction again with a fee that nodes accept in its place: same nonce, same contents otherwise.

        None: its fee is the highest that is allowed. `valid_until` is None here: it is the one it had.
        """
