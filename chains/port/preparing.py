"""The protocols that sign transactions without asking any node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Protocol

from chains.port.gas import PaymentCosts
from chains.port.signer import PaymentSigner
from chains.port.transactions import Order, SignedTransaction, Submitter


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a payment cannot be made until somebody changes something: a sentence that says what.

    `least`: the amount from which on it could be made, in units of its asset; None: no amount could.
    """

    message: str
    least: Decimal | None = None

    @classmethod
    def of_exclusion(cls, why: str) -> "Obstacle":
        """Make that of an asset which is not paid with by the configuration, in the words of `why`."""
        return cls(f"{why} The operator has to change that, or the payee to be paid in another asset or elsewhere.")


@dataclass(frozen=True, slots=True)
class PaymentPlan:
    """A payment that a transaction is to make; `payee` is what was observed of its payee (`PayeeObserver`) or None."""

    order: Order
    payee: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TransactionPlan:
    """What a transaction is made from: its payments in their order, who submits and co-signs it, the chain's `state`.

    The state is what was observed (`Observer`).
    """

    payments: Sequence[PaymentPlan]
    submitter: Submitter
    state: Mapping[str, Any]
    signer: PaymentSigner

    @classmethod
    def of_one(
        cls,
        order: Order,
        submitter: Submitter,
        state: Mapping[str, Any],
        signer: PaymentSigner,
        payee: Mapping[str, Any] | None = None,
    ) -> "TransactionPlan":
        """Plan a transaction of one payment."""
        return cls([PaymentPlan(order, payee)], submitter, state, signer)

    @property
    def orders(self) -> Sequence[Order]:
        return [one.order for one in self.payments]


class Preparer(Protocol):
    """Signs payments.

    `configuration` identifies the configuration: a state that was observed for another one is not used for signing.
    `most_relayers`: the highest number of relayers that the escrow can know; None: any number.
    """

    configuration: str

    @property
    def most_relayers(self) -> int | None: ...

    def escrow_id(self, payment_id: str, key_hash: bytes) -> str:
        """Choose the id of a payment on the chain; `key_hash` (32 bytes) is the hash of its idempotency key.

        Where the escrow itself pays each id only once, the id is the hash: so one key is paid only once, even if our
        database has lost it.
        """

    def find_obstacle(self, order: Order, state: Mapping[str, Any], payee: Mapping[str, Any] | None) -> Obstacle | None:
        """Say what stands in the way of an order until somebody changes something; None: nothing that is known.

        `state` and `payee`: as of the plans; each is empty if it is not known well enough. What passes by itself, and
        what operators are told of, is no obstacle: `prepare` refuses it for the time being.
        """

    def divide(self, payments: Sequence[PaymentPlan], state: Mapping[str, Any]) -> Sequence[Sequence[PaymentPlan]]:
        """Divide payments into groups, each of which fits into one transaction, in their order; `state` as of a plan.

        Raises:
            ChainUnavailable: as `prepare` does.
        """

    def prepare(self, plan: TransactionPlan, now: datetime) -> SignedTransaction:
        """Co-sign and sign the transaction of one payment, or of a group that fits into one (`divide`).

        Raises:
            ChainUnavailable: an asset is not served on this chain, or a payee cannot be paid now.
            SignerUnavailable: the policy signer did not co-sign.
        """

    def rehearse(self, plan: TransactionPlan) -> Decimal:
        """Check all that `prepare` checks, and sign nothing; returns the most that the transaction can cost.

        Raises:
            ChainUnavailable, SignerUnavailable: as `prepare` does; but whether the signer signs, only `prepare` tells.
        """

    def find_payment_costs(self, state: Mapping[str, Any]) -> PaymentCosts:
        """Compute the most that a payment costs, from the observed `state` of the chain."""

    def relayer_address(self, number: int) -> str:
        """Derive the address of a relayer."""

    def spends_from_escrow(self, raw: bytes) -> bool:
        """Return whether a signed transaction takes anything out of the configured escrow."""


class NonceAdapter(Protocol):
    """The additional operations of a chain whose accounts use up nonces one after the other.

    Its escrow records payments: it pays each id once, up to a deadline, and can mark an id as used without paying it.
    """

    def prepare_void(
        self, escrow_id: str, submitter: Submitter, state: Mapping[str, Any], signer: PaymentSigner
    ) -> SignedTransaction:
        """Co-sign and sign a transaction that makes the escrow mark an id as used without paying it.

        Raises:
            ChainUnavailable, SignerUnavailable: as `Preparer.prepare` does.
        """

    def prepare_filler(self, submitter: Submitter, state: Mapping[str, Any]) -> SignedTransaction:
        """Sign a transaction that moves nothing and only uses up its nonce, so that later ones can be included."""

    def raise_fee(self, raw: bytes, submitter: Submitter, state: Mapping[str, Any]) -> SignedTransaction | None:
        """Sign a transaction again with a fee that is high enough to replace it; nonce and call stay the same.

        Returns None if its fee is the highest that is allowed. `valid_until` of the result is None: the deadline of the
        replaced transaction stays.
        """
