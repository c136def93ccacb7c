"""A well-formed payment request, and what its decision needs beside the database: two values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal

from allowance.kernel.assets import Asset
from chains.port import ChainAdapter
from policy.signer import PolicySigner


@dataclass(frozen=True, slots=True)
class PaymentRequest:
    """What an agent asks for. `amount_text` is the amount as written, `metadata_json` canonical or None.

    `fingerprint` is the SHA-256 of the whole body as it was sent, unknown members included.
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


@dataclass(frozen=True, slots=True)
class Environment:
    """What a decision needs beside the database: who signs, which chains (CAIP-2) are served, how fresh is fresh.

    `wake` is told the chain of an approved payment once it is committed; `now` replaces all clocks in tests. `minimums`
    has the least amounts of the chains that have some. Of an agent's refusals so many are kept in a minute.
    `gas_budget`: what an agent's transactions may cost in 24 hours on one chain, in its coin; None: whatever they cost.
    """

    signer: PolicySigner
    chains: Mapping[str, ChainAdapter]
    max_chain_state_age: timedelta
    wake: Callable[[str], None]
    refusals_per_minute: int
    now: datetime | None = None
    minimums: Mapping[str, Mapping[Asset, Decimal]] = field(default_factory=dict)
    gas_budget: Decimal | None = None
