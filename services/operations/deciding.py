"""Decide on payees: approve, reject, disable, enable, and take up again what was rejected.

With `registration` (the number that the reviewer was shown), a registration that changed meanwhile is refused. `now`
replaces the clock.
"""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from foundation.kernel.blanks import is_blank
from foundation.kernel.errors import OperationRefused
from foundation.kernel.times import utc_now
from services.history import keep_decision
from services.models import Service, ServiceStatus
from services.operations.registered import check_number, find_service, lock_service
from services.vetting import check_payable, check_with_chain
from staff.audit import record


@dataclass(frozen=True, slots=True)
class _Decision:
    """What is decided, by whom and why: the step as the audit calls it, and the state that it leads to."""

    step: str
    status: ServiceStatus
    by: str
    reason: str
    now: datetime | None = None


def approve_service(
    service_id: str,
    *,
    by: str,
    reason: str = "",
    registration: int | None = None,
    allow_off_curve: bool = False,
    now: datetime | None = None,
) -> Service:
    """Approve a pending or disabled service, exactly as registered, once its chain has nothing against the recipient.

    A registration that changes while the chain is asked is refused.

    Raises:
        OperationRefused: no such service, not waiting for approval, changed meanwhile, or not to be paid here; or its
            chain cannot tell now.
    """
    decision = _Decision("approved", ServiceStatus.APPROVED, by, reason, now)
    return _approve(service_id, decision, registration, allow_off_curve=allow_off_curve)


def check_approval(service_id: str, *, registration: int) -> None:
    """Check whether a registration could be approved now. This asks nodes, so call it under no lock.

    Raises:
        OperationRefused: as of `approve_service`.
    """
    asked = find_service(Service.objects.all(), service_id)
    _check_approvable(asked, _Decision("approved", ServiceStatus.APPROVED, "", ""), registration, allow_off_curve=False)
    check_with_chain(asked)


def approve_checked(service_id: str, *, registration: int, by: str, reason: str) -> Service:
    """Approve a registration in which `check_approval` has just found nothing: this asks no node.

    Raises:
        OperationRefused: as of `approve_service`, but for what its chain says.
    """
    decision = _Decision("approved", ServiceStatus.APPROVED, by, reason)
    return _approve_checked(service_id, decision, registration, allow_off_curve=False)


def enable_service(
    service_id: str, *, by: str, reason: str = "", registration: int | None = None, allow_off_curve: bool = False
) -> Service:
    """Approve a disabled service again, which is checked as any approval is.

    Raises:
        OperationRefused: it is not disabled, or as of `approve_service`.
    """
    decision = _Decision("enabled", ServiceStatus.APPROVED, by, reason)
    return _approve(service_id, decision, registration, allow_off_curve=allow_off_curve)


def reject_service(
    service_id: str, *, by: str, reason: str = "", registration: int | None = None, now: datetime | None = None
) -> Service:
    """Reject a pending service.

    Raises:
        OperationRefused: no such service, not pending, or changed meanwhile.
    """
    decision = _Decision("rejected", ServiceStatus.REJECTED, by, reason, now)
    return _leave(service_id, ServiceStatus.PENDING_APPROVAL, decision, registration)


def disable_service(
    service_id: str, *, by: str, reason: str = "", registration: int | None = None, now: datetime | None = None
) -> Service:
    """Disable an approved service: payments to it are refused from now on.

    Raises:
        OperationRefused: no such service, not approved, or changed meanwhile.
    """
    decision = _Decision("disabled", ServiceStatus.DISABLED, by, reason, now)
    return _leave(service_id, ServiceStatus.APPROVED, decision, registration)


def reopen_service(service_id: str, *, by: str, reason: str, registration: int | None = None) -> Service:
    """Take up again what was rejected: the same registration waits for approval once more.

    Raises:
        OperationRefused: no such service, not rejected, changed meanwhile, or no reason.
    """
    if is_blank(reason):
        raise OperationRefused("Give a reason.")
    decision = _Decision("reopened", ServiceStatus.PENDING_APPROVAL, by, reason)
    return _leave(service_id, ServiceStatus.REJECTED, decision, registration)


def _approve(service_id: str, decision: _Decision, registration: int | None, *, allow_off_curve: bool) -> Service:
    asked = find_service(Service.objects.all(), service_id)
    _check_approvable(asked, decision, registration, allow_off_curve=allow_off_curve)
    check_with_chain(asked)
    return _approve_checked(service_id, decision, asked.registration, allow_off_curve=allow_off_curve)


def _approve_checked(service_id: str, decision: _Decision, registration: int, *, allow_off_curve: bool) -> Service:
    with transaction.atomic():
        service = lock_service(service_id)
        _check_approvable(service, decision, registration, allow_off_curve=allow_off_curve)
        service.approved_recipient = service.canonical_recipient
        _decide(service, decision)
    return service


def _leave(service_id: str, expected: ServiceStatus, decision: _Decision, registration: int | None) -> Service:
    with transaction.atomic():
        service = lock_service(service_id)
        check_number(service, registration)
        if service.status != expected:
            raise OperationRefused(f"{service.id} is {service.status}, not {expected}.")
        _decide(service, decision)
    return service


def _decide(service: Service, decision: _Decision) -> None:
    before, now = service.status, decision.now or utc_now()
    service.status = decision.status
    service.decided_by = decision.by
    service.decided_at = now
    service.waiting_since = now if decision.status == ServiceStatus.PENDING_APPROVAL else None
    service.save()
    record(
        f"service.{decision.step}",
        subject_type="service",
        subject=service.id,
        by=decision.by,
        reason=decision.reason,
        before={"status": before},
        after={
            "status": service.status, "registration": service.registration, "recipient": service.canonical_recipient,
            "asset": service.asset, "webhookUrl": service.webhook_url,
        },
        now=now,
    )  # fmt: skip
    keep_decision(service, by=decision.by, at=now, reason=decision.reason)


def _check_approvable(
    service: Service, decision: _Decision, registration: int | None, *, allow_off_curve: bool
) -> None:
    check_number(service, registration)
    if decision.step == "enabled" and service.status != ServiceStatus.DISABLED:
        raise OperationRefused(f"{service.id} is {service.status}, not disabled.")
    if service.status not in (ServiceStatus.PENDING_APPROVAL, ServiceStatus.DISABLED):
        raise OperationRefused(f"{service.id} is {service.status}; only a pending or disabled payee can be approved.")
    check_payable(service, allow_off_curve=allow_off_curve)
