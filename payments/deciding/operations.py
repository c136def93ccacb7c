"""The money path: one payment request, decided once.

One transaction, no network inside it but the database, two round trips and a commit: lock and read, evaluate,
prepare, record. What is raised, is raised after the commit, so that no decision is lost with it.
Source: docs/interface-specification.md, "POST /v1/payments/request"; docs/architecture.md, "One payment's way".
"""

import json
import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal, localcontext
from functools import partial

from django.db import transaction

from allowance.api.errors import DEFAULT_RETRY_AFTER_S
from allowance.kernel.assets import Asset
from allowance.kernel.errors import AgentNotFound, IdempotencyConflict, PolicySignerUnavailable, RateLimited
from allowance.kernel.ids import new_id, time_of
from allowance.kernel.money import EXACT
from allowance.kernel.repeated_logs import log_once_a_minute
from allowance.kernel.times import LARGEST_SKEW, is_fresh, utc_now
from chains.port import ChainAdapter, ChainUnavailable, Order, SignerUnavailable, Submitter
from ledger.clocks import Reading, trust
from ledger.models import LogEntry
from ledger.queries import find_fitting_moment
from payments.deciding.decisions import explain, facts, make_entry, refusal
from payments.deciding.money_path import Locked, Prepared, lock_and_read, read_gas, record
from payments.deciding.requests import PaymentRequest
from policy.rules import DAY, SIGNER_RULE, Decision, Explanation, evaluate
from policy.signer import PolicySigner

log = logging.getLogger(__name__)

# What the requester is told; the console says more.
_TROUBLE = {
    "mismatch": "The service's chain is not ready for payments: it is not as it is configured.",
    "stopped": "Signing is stopped on the service's chain.",
}


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


@dataclass(frozen=True, slots=True)
class Approval:
    """An approved decision; `is_replay` tells that it was taken earlier, for the same key."""

    entry: LogEntry
    is_replay: bool


def request_payment(request: PaymentRequest, environment: Environment) -> Approval:
    """Decide a payment request and, if it is approved, commit to paying it.

    Raises:
        AgentNotFound: nothing is logged.
        IdempotencyConflict: the key is known with another payload; nothing is logged.
        AgentPaused, ServiceNotApproved, InvalidRequest (asset, minimum), BudgetExceeded: blocked by policy, and logged.
        PolicySignerUnavailable: it could not be evaluated, co-signed or prepared. Logged without its key, so that the
            same key is evaluated afresh; not logged if the agent was too busy to be locked in time, if clocks disagree,
            or if the same was told and logged just now.
        RateLimited: it is refused, as many others were in the last minute; not logged.
    """
    with localcontext(EXACT), transaction.atomic():
        asked_at = environment.now or utc_now()
        locked = lock_and_read(request, environment.now, environment.refusals_per_minute)
        if locked is None:
            raise AgentNotFound
        is_replay = locked.earlier_entry_id is not None
        if is_replay:
            entry = _find_earlier(request, locked)
        else:
            _check_clocks(request, locked, asked_at, environment.now or utc_now())
            entry = _decide(request, locked, environment)
    if entry.payment_id is None:
        raise refusal(entry, is_replay=is_replay)
    if not is_replay:
        environment.wake(str(locked.chain))
    return Approval(entry, is_replay)


def _find_earlier(request: PaymentRequest, locked: Locked) -> LogEntry:
    entry = LogEntry.objects.get(pk=locked.earlier_entry_id)
    if bytes(entry.fingerprint or b"") != request.fingerprint:
        raise IdempotencyConflict
    return entry


def _check_clocks(request: PaymentRequest, locked: Locked, asked_at: datetime, answered_at: datetime) -> None:
    """Decide nothing at a wrong time: it would be written down."""
    is_trusted = trust(Reading(asked_at, locked.clock_at, answered_at))
    ahead = timedelta(0) if locked.last_entry_at is None else locked.last_entry_at - locked.clock_at
    if ahead > LARGEST_SKEW:
        log_once_a_minute(
            log,
            logging.ERROR,
            "The last entry of %s is %s s in the future: nothing of it is decided until then, or manage.py clocks",
            request.agent_id,
            ahead.total_seconds(),
            about=request.agent_id,
        )
    if not is_trusted or ahead > LARGEST_SKEW:
        raise PolicySignerUnavailable("The time is not certain here, so nothing can be decided. Try again later.")


def _decide(request: PaymentRequest, locked: Locked, environment: Environment) -> LogEntry:
    payment_id: str | None = None
    prepared: Prepared | None = None
    minimum = environment.minimums.get(str(locked.chain), {}).get(request.asset)
    decision = evaluate(facts(request, locked, minimum))
    try:
        if decision.is_approved:
            payment_id = new_id("pay", locked.decided_at)
            prepared = _prepare(payment_id, request, locked, environment)
    except (SignerUnavailable, ChainUnavailable) as error:
        payment_id = None
        decision = Decision(is_approved=False, rule=SIGNER_RULE, explanation=Explanation(str(error)))
    if not decision.is_approved:
        if (told := _find_told(decision, locked)) is not None:
            return told
        _limit_refusals(locked)
    find_moment = partial(find_fitting_moment, request.agent_id, locked.spent_total, locked.decided_at)
    try:
        entry = make_entry(
            request,
            locked,
            decision,
            explain(decision, request, locked, find_moment),
            payment_id=payment_id,
            tx=prepared.signed.tx if prepared else None,
            signer=environment.signer,
        )
    except SignerUnavailable as error:
        # Not even the refusal can be sealed, so it is not kept: nothing was decided.
        raise PolicySignerUnavailable from error
    record(entry, request, locked, prepared)
    return entry


def _find_told(decision: Decision, locked: Locked) -> LogEntry | None:
    """Find the entry of the same 503 to the same request, from within its `Retry-After`."""
    if decision.rule != SIGNER_RULE or locked.refused_entry_id is None:
        return None
    if locked.decided_at - time_of(locked.refused_entry_id) >= timedelta(seconds=DEFAULT_RETRY_AFTER_S):
        return None
    entry = LogEntry.objects.get(pk=locked.refused_entry_id)
    return entry if entry.explanation["message"] == decision.explanation.message else None


def _limit_refusals(locked: Locked) -> None:
    """Refuse without a trace what would be one refusal too many in a minute: the log is kept for ever."""
    if locked.refusing_since is not None:
        wait = locked.refusing_since + timedelta(minutes=1) - locked.decided_at
        raise RateLimited(
            "Too many payments of this agent were refused in the last minute. This one is, too, and is not logged.",
            retry_after_s=max(1, math.ceil(wait.total_seconds())),
            counted="refusals",
        )


def _prepare(payment_id: str, request: PaymentRequest, locked: Locked, environment: Environment) -> Prepared:
    """Co-sign and sign the transaction of an approved payment, so that its id is known before it is sent."""
    chain = environment.chains.get(str(locked.chain))
    if not locked.is_signing:
        raise SignerUnavailable("The policy signer is out of service.")
    if chain is None or locked.recipient is None:
        raise ChainUnavailable("The service's chain is not served here.")
    if locked.chain_trouble is not None:
        raise ChainUnavailable(_TROUBLE[locked.chain_trouble])
    if locked.relayer_in_need is not None:
        _say_who_is_in_need(locked)
        raise ChainUnavailable("No relayer of the service's chain has the gas money for another payment.")
    if locked.relayer_number is None or locked.relayer_address is None:
        raise ChainUnavailable("No relayer is free on the service's chain.")
    age = environment.max_chain_state_age
    if locked.chain_state is None or not is_fresh(locked.chain_observed_at, locked.decided_at, age):
        raise ChainUnavailable("The state of the service's chain is not known well enough.")
    if locked.key_hash is None or locked.is_key_used:
        raise ChainUnavailable("The service's chain has used up this Idempotency-Key without our knowledge.")
    escrow_id = chain.escrow_id(payment_id, locked.key_hash)
    order = Order(escrow_id, request.asset, request.amount, locked.recipient)
    state = json.loads(locked.chain_state)
    payee = (
        None
        if locked.payee_state is None or not is_fresh(locked.payee_observed_at, locked.decided_at, age)
        else json.loads(locked.payee_state)
    )
    if environment.gas_budget is not None:
        _check_gas(request, locked, chain.find_most_cost(order, state, payee), environment.gas_budget)
    submitter = Submitter(locked.relayer_number, locked.relayer_address, locked.nonce)
    signed = chain.prepare(order, submitter, state, locked.decided_at, environment.signer, payee=payee)
    return Prepared(escrow_id, signed)


def _check_gas(request: PaymentRequest, locked: Locked, most_cost: Decimal, budget: Decimal) -> None:
    """Refuse a payment whose transaction could cost more than is left of the agent's gas budget."""
    # Under the agent's lock: what it has under way is committed.
    used = read_gas(request.agent_id, str(locked.chain), locked.decided_at - DAY)
    if used + most_cost <= budget:
        return
    log_once_a_minute(
        log, logging.WARNING, "Agent %s has used up its gas budget of 24 hours on %s", request.agent_id, locked.chain,
        about=(request.agent_id, locked.chain),
    )  # fmt: skip
    raise ChainUnavailable("The agent's gas budget of 24 hours is used up on the service's chain.")


def _say_who_is_in_need(locked: Locked) -> None:
    log_once_a_minute(
        log, logging.WARNING, "%s: no relayer has the gas money for another payment; send some to %s", locked.chain,
        locked.relayer_in_need, about=locked.chain,
    )  # fmt: skip
