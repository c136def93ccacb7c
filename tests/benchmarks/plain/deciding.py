"""Decide a payment by the ORM: lock the agent, read, evaluate, sign, write, one statement for each."""

from datetime import datetime
from decimal import Decimal, localcontext
from functools import partial
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Q, Sum
from django.db.models.functions import Coalesce

from chains.port import ChainUnavailable, SignerUnavailable
from foundation.kernel.canonical import canonical_json
from foundation.kernel.errors import AgentNotFound, IdempotencyConflict
from foundation.kernel.ids import new_id
from foundation.kernel.money import EXACT
from foundation.kernel.times import utc_now
from ledger.models import BalanceMovement, LogEntry, MovementKind, Result
from ledger.queries import find_fitting_moment
from ledger.receipts import FIRST_PREVIOUS_HASH, receipt, request_digest, seal
from payments.deciding.entries import explain_approval, explain_refusal
from payments.deciding.payment_events import payment_event
from payments.deciding.requests import PaymentRequest
from payments.lifecycle import PaymentStatus
from payments.models import Leg, Payment, Settlement
from payments.settling.broadcast_notifier import broadcast_notifier
from policy.asking import ask_rules
from policy.facts import Facts, PayeeFacts
from policy.models import Agent, PolicyRevision
from policy.objections import DAY, WEEK
from policy.rule import Decision, Explanation
from policy.rules import SIGNER_RULE
from policy.signer import local_signer
from services.models import Service, WebhookEvent
from tests.benchmarks.plain.preparing import Prepared, prepare


def decide(request: PaymentRequest) -> tuple[LogEntry, bool]:
    """Decide a request once; returns its log entry, and whether it was decided earlier.

    Raises:
        AgentNotFound, IdempotencyConflict: nothing is logged.
    """
    with localcontext(EXACT), transaction.atomic():
        agent = Agent.objects.select_for_update(no_key=True).filter(pk=request.agent_id).first()
        if agent is None:
            raise AgentNotFound
        earlier = LogEntry.objects.filter(agent=agent, idempotency_key=request.idempotency_key).first()
        if earlier is not None:
            if bytes(earlier.fingerprint or b"") != request.fingerprint:
                raise IdempotencyConflict
            return earlier, True
        return _decide(request, agent), False


def _decide(request: PaymentRequest, agent: Agent) -> LogEntry:
    now = max(utc_now(), agent.last_entry_at or utc_now())
    policy = PolicyRevision.objects.get(agent=agent, number=agent.policy_revision)
    service = Service.objects.filter(pk=request.service).first()
    facts = _read_facts(request, agent, policy, service, now)
    decision, prepared = ask_rules(facts), None
    if decision.is_approved and service is not None:
        try:
            prepared = prepare(request, service, now)
        except (SignerUnavailable, ChainUnavailable) as error:
            decision = Decision(is_approved=False, rule=SIGNER_RULE, explanation=Explanation(str(error)))
    if prepared is not None and service is not None:
        explanation = explain_approval(decision, facts, service.approved_recipient, prepared.escrow_id)
    else:
        find_moment = partial(find_fitting_moment, agent.pk, request.service, agent.spent_total, now)
        explanation = explain_refusal(decision, facts, find_moment)
    entry = _make_entry(request, agent, decision, explanation, at=now, prepared=prepared)
    _write(request, agent, entry, prepared, service)
    return entry


def _read_facts(
    request: PaymentRequest, agent: Agent, policy: PolicyRevision, service: Service | None, now: datetime
) -> Facts:
    of_week = Payment.objects.filter(agent=agent, created_at__gt=now - WEEK).exclude(status=PaymentStatus.FAILED)
    nothing = Decimal(0)
    spent = of_week.aggregate(
        today=Coalesce(Sum("amount", filter=Q(created_at__gt=now - DAY)), nothing),
        this_week=Coalesce(Sum("amount"), nothing),
    )
    payee = minimum = None
    if service is not None:
        is_approved = (
            service.status == "approved" and service.approved_recipient == f"{service.chain}:{service.address}"
        )
        payee = PayeeFacts(service.pk, is_approved, service.asset)
        served = settings.CHAINS.get(service.chain)
        minimum = served.minimums.get(request.asset) if served else None
    return Facts(
        amount=request.amount,
        asset=request.asset,
        agent_is_active=agent.status == "active",
        agent_asset=agent.asset,
        balance=agent.balance,
        max_per_payment=policy.max_per_payment,
        daily_limit=policy.daily_limit,
        weekly_limit=policy.weekly_limit,
        spent_today=spent["today"],
        spent_this_week=spent["this_week"],
        allowed_services=None if policy.allowed_services is None else frozenset(policy.allowed_services),
        payee=payee,
        minimum=minimum,
        at=now,
    )


def _make_entry(
    request: PaymentRequest,
    agent: Agent,
    decision: Decision,
    explanation: dict[str, Any],
    *,
    at: datetime,
    prepared: Prepared | None,
) -> LogEntry:
    is_final = decision.rule is not SIGNER_RULE
    signed_request = request_digest(request.idempotency_key, request.fingerprint)
    if is_final:
        explanation["request"] = signed_request
    signer = local_signer()
    entry = LogEntry(
        id=new_id("log", at, after=agent.last_entry_id or None),
        agent=agent,
        service=request.service,
        amount=request.amount_text,
        asset=request.asset.value,
        result=Result.APPROVED.value if decision.is_approved else Result.BLOCKED.value,
        rule=decision.rule.name,
        created_at=at,
        reason=request.reason,
        metadata_json=request.metadata_json,
        policy_revision=agent.policy_revision,
        payment_id=prepared.payment_id if prepared else None,
        tx=prepared.signed.tx if prepared else None,
        explanation_json=canonical_json(explanation).decode(),
        previous_hash=agent.last_entry_hash or FIRST_PREVIOUS_HASH,
        key_id=signer.key_id,
        idempotency_key=request.idempotency_key if is_final else None,
        fingerprint=request.fingerprint if is_final else None,
        spent_total=agent.spent_total + (request.amount if decision.is_approved else 0),
        refused_request=None if is_final else signed_request,
    )
    entry.hash, entry.signature = seal(receipt(entry), signer.sign_receipt)
    return entry


def _write(
    request: PaymentRequest, agent: Agent, entry: LogEntry, prepared: Prepared | None, service: Service | None
) -> None:
    entry.save(force_insert=True)
    agent.last_entry_id, agent.last_entry_hash, agent.last_entry_at = entry.id, entry.hash, entry.created_at
    agent.spent_total = entry.spent_total
    if prepared is not None and service is not None:
        agent.balance -= request.amount
        _write_payment(request, entry, prepared, service, agent)
    agent.save(update_fields=["last_entry_id", "last_entry_hash", "last_entry_at", "spent_total", "balance"])


def _write_payment(
    request: PaymentRequest, entry: LogEntry, prepared: Prepared, service: Service, agent: Agent
) -> None:
    relayer, signed = prepared.relayer, prepared.signed
    payment = Payment.objects.create(
        id=prepared.payment_id, agent=agent, entry=entry, service=service, asset=request.asset, amount=request.amount,
        chain=service.chain, recipient=service.address, escrow_id=prepared.escrow_id, status=PaymentStatus.APPROVED,
        created_at=entry.created_at,
    )  # fmt: skip
    settlement = Settlement.objects.create(
        tx=signed.tx, first_payment=payment, chain=service.chain, relayer=relayer, nonce=relayer.next_nonce,
        raw=signed.raw, valid_until=signed.valid_until, valid_until_height=signed.valid_until_height,
        valid_from_block=signed.valid_from_block, most_cost=signed.most_cost, state="signed",
        created_at=entry.created_at, changed_at=entry.created_at,
    )  # fmt: skip
    Leg.objects.create(
        payment=payment, settlement=settlement, agent=agent, chain=service.chain, most_cost=signed.most_cost
    )
    if relayer.next_nonce is not None:
        relayer.next_nonce += 1
        relayer.save(update_fields=["next_nonce"])
    BalanceMovement.objects.create(
        agent=agent, kind=MovementKind.PAYMENT, amount=-request.amount, balance_after=agent.balance,
        payment_id=payment.id, author="policy", created_at=entry.created_at,
    )  # fmt: skip
    if service.webhook_url is not None:
        recipient, at, escrow_id = service.approved_recipient, entry.created_at, prepared.escrow_id
        event = payment_event(PaymentStatus.APPROVED, entry, recipient, entry.tx, at, escrow_id=escrow_id)
        WebhookEvent.of(event, service, entry.created_at).save(force_insert=True)
    transaction.on_commit(partial(broadcast_notifier().notify, service.chain))
