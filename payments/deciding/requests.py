"""A well-formed payment request, the environment outside of the database, and the payment that both prepare."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from chains.port import AuthorizationTerms, ChainAdapter, SignedAuthorization, SignedTransaction, TransactionPlan
from foundation.kernel.assets import Asset
from payments.deciding.known import PayeeRecord, RelayerRecord
from policy.callers import Caller
from policy.signer import PolicySigner


@dataclass(frozen=True, slots=True)
class Demand:
    """What a payee's 402 asks for (x402): it takes the money itself, to the address `pay_to` on `network` (CAIP-2).

    `requirements` are as they were sent.
    """

    network: str
    pay_to: str
    terms: AuthorizationTerms
    requirements: Mapping[str, Any]

    @classmethod
    def of(cls, requirements: Mapping[str, Any]) -> "Demand":
        """Read requirements whose form was checked when they were sent."""
        extra = requirements["extra"]
        timeout_s = requirements["maxTimeoutSeconds"]
        terms = AuthorizationTerms(requirements["asset"], extra["name"], extra["version"], timeout_s)
        return cls(requirements["network"], requirements["payTo"], terms, requirements)

    def is_of(self, chain: str, address: str) -> bool:
        """Tell whether the money is wanted at this address, which is one of an EVM chain."""
        return (self.network, self.pay_to.lower()) == (chain, address.lower())


@dataclass(frozen=True, slots=True)
class HeldPayment:
    """A payment that was held for a person's approval, and is decided now.

    `payment_id` and `entry_id` are its own and that of the decision to hold it, `asked_at` is when that was made, and
    `expires_at` until when it could be approved. `recipient` (CAIP-10) is who was to be paid when it was held.
    `refusal` says in a sentence why it is refused whatever the rules say; None: a person has approved it. `answer` is
    what a person has said (`HoldAnswer`), `answered_by` who that is, with the reason; all are empty if nobody has.
    """

    payment_id: str
    entry_id: str
    asked_at: datetime
    answer: str
    answered_by: str
    answer_reason: str
    refusal: str | None
    expires_at: datetime
    recipient: str


@dataclass(frozen=True, slots=True)
class PaymentRequest:
    """The request of an agent. `amount_text` is the amount as it was written, `metadata_json` canonical or None.

    `idempotency_key` is empty if the request is only evaluated. `fingerprint` is the SHA-256 of the whole body as it
    was sent, including unknown members. `caller` is who asks, if the decision is to verify that. `ids` are those that
    lines about it carry. `demand` is None if we submit the payment. `held` is None if it is asked for
    now. `asked_with` is the id of the API key.
    """

    agent_id: str
    service: str
    amount: Decimal
    amount_text: str
    asset: Asset
    reason: str
    metadata_json: str | None
    idempotency_key: str
    fingerprint: bytes
    caller: Caller | None = None
    ids: Mapping[str, str] = field(default_factory=dict)
    demand: Demand | None = None
    held: HeldPayment | None = None
    asked_with: str = ""


@dataclass(frozen=True, slots=True)
class Environment:
    """The inputs of a decision outside of the database; `chains` are the adapters of the served chains, by CAIP-2.

    An older state of a chain than `max_chain_state_age` is not used. `wake` is called with the chain of an approved
    payment once it is committed. `now` replaces all clocks in tests. `minimums` are the smallest payments, by chain and
    asset. At most `refusals_per_minute` of an agent's refusals are logged in a minute. `gas_budget`: the most that an
    agent's transactions may cost in 24 hours on one chain, in its coin; None: no limit.
    """

    signer: PolicySigner
    chains: Mapping[str, ChainAdapter]
    max_chain_state_age: timedelta
    wake: Callable[[str], None]
    refusals_per_minute: int
    now: datetime | None = None
    minimums: Mapping[str, Mapping[Asset, Decimal]] = field(default_factory=dict)
    gas_budget: Decimal | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A payment that nothing speaks against any more: its ids, here and on its chain, and what its transaction needs.

    `most_cost`: the most that it costs by itself, in the chain's coin. If its payee takes it, `authorization` is what
    lets the payee do so, and it needs no transaction.
    """

    payment_id: str
    adapter: ChainAdapter
    plan: TransactionPlan
    payee: PayeeRecord
    relayer: RelayerRecord
    most_cost: Decimal
    authorization: SignedAuthorization | None = None

    @property
    def escrow_id(self) -> str:
        return self.plan.orders[0].escrow_id


@dataclass(frozen=True, slots=True)
class Carrier:
    """A signed transaction of a batch, with the payments that it makes, in their order; `nonce` is its relayer's."""

    signed: SignedTransaction
    chain: str
    relayer: RelayerRecord
    nonce: int | None
    payments: Sequence[Prepared]
