"""Prepare an approved payment by the ORM: choose a relayer, check that its chain may be signed for, sign twice."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, Q

from chains.port import ChainUnavailable, Order, SignedTransaction, SignerUnavailable, Submitter, TransactionPlan
from foundation.kernel.ids import new_id
from foundation.kernel.times import is_fresh
from payments.deciding.escrow_ids import key_hash
from payments.deciding.requests import PaymentRequest
from payments.models import ChainState, Installation, Outflow, PayeeState, Relayer
from policy.models import SignerSwitch
from policy.signer import local_signer
from services.models import Service
from services.served_chains import served_chains


@dataclass(frozen=True, slots=True)
class Prepared:
    """A payment that is ready to be written."""

    payment_id: str
    escrow_id: str
    signed: SignedTransaction
    relayer: Relayer


def prepare(request: PaymentRequest, service: Service, now: datetime) -> Prepared:
    """Sign the transaction of an approved payment.

    Raises:
        SignerUnavailable, ChainUnavailable: it cannot be signed now.
    """
    adapter = served_chains().get(service.chain)
    if adapter is None:
        raise ChainUnavailable("The service's chain is not served here.")
    chain = _require_signable(service.chain, now)
    relayer = _lock_relayer(service.chain)
    hashed = key_hash(bytes(Installation.objects.get().salt), request.agent_id, request.idempotency_key)
    if Outflow.objects.filter(chain=service.chain, escrow_id=f"0x{hashed.hex()}").exists():
        raise ChainUnavailable("The service's chain has used up this Idempotency-Key without our knowledge.")
    payee = PayeeState.objects.filter(chain=service.chain, address=service.address).first()
    payee_state = payee.state if payee and _is_fresh(payee.observed_at, now) else None
    payment_id = new_id("pay", now)
    escrow_id = adapter.preparer.escrow_id(payment_id, hashed)
    order = Order(escrow_id, request.asset, request.amount, service.address)
    submitter = Submitter(relayer.number, relayer.address, relayer.next_nonce)
    plan = TransactionPlan.of_one(order, submitter, chain.state, local_signer(), payee_state)
    signed = adapter.preparer.prepare(plan, now)
    return Prepared(payment_id, escrow_id, signed, relayer)


def _require_signable(chain: str, now: datetime) -> ChainState:
    switch = SignerSwitch.objects.first()
    if switch is None or not switch.is_signing:
        raise SignerUnavailable("The policy signer is out of service.")
    state = ChainState.objects.filter(pk=chain).first()
    if state is not None and state.mismatch:
        raise ChainUnavailable("The service's chain is not ready for payments: it is not as it is configured.")
    if state is not None and state.stopped_reason:
        raise ChainUnavailable("Signing is stopped on the service's chain.")
    if state is None or not _is_fresh(state.observed_at, now):
        raise ChainUnavailable("The state of the service's chain is not known well enough.")
    return state


def _lock_relayer(chain: str) -> Relayer:
    """Choose the relayer with the shortest queue that nobody else has locked; if all are, wait for one."""
    ready = Relayer.objects.filter(
        Q(funded_until=None) | Q(next_nonce__lt=F("funded_until")),
        chain=chain,
        is_enabled=True,
        is_funded=True,
        next_nonce__gte=F("mined_nonce"),
    ).order_by(F("next_nonce") - F("mined_nonce"), "?")
    free = ready.select_for_update(skip_locked=True).first() or ready.select_for_update().first()
    if free is None:
        raise ChainUnavailable("No relayer is free on the service's chain.")
    return free


def _is_fresh(at: datetime, now: datetime) -> bool:
    return is_fresh(at, now, timedelta(seconds=settings.CHAIN_STATE_MAX_AGE_S))
