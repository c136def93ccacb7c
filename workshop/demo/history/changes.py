"""The audit of a history: who made its agents, changed their policies, paused them, and decided on its payees."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from foundation.kernel.money import format_amount
from policy.models import PolicyRevision
from services.models import ServiceDecision
from staff.models import AuditEntry
from workshop.demo.history.cast import AgentPlan
from workshop.demo.people import FIONA


def record_changes(plans: Sequence[AgentPlan], payees: Sequence[str]) -> None:
    """Write the entries in the order of time."""
    entries = [
        *_of_policies(plans),
        *_of_payees(payees),
        *(_pause(plan.id, plan.paused_at) for plan in plans if plan.paused_at),
    ]
    AuditEntry.objects.bulk_create(sorted(entries, key=lambda entry: entry.at))


def _of_policies(plans: Sequence[AgentPlan]) -> Iterator[AuditEntry]:
    before: PolicyRevision | None = None
    for one in PolicyRevision.objects.filter(agent__in=[plan.id for plan in plans]).order_by("agent", "number"):
        is_first = one.number == 1
        yield AuditEntry(
            at=one.created_at,
            author=one.created_by,
            action="agent.created" if is_first else "policy.changed",
            subject_type="agent" if is_first else "policy",
            subject=one.agent_id,
            before=None if is_first or before is None else _policy(before),
            after=_policy(one),
        )
        before = one


def _policy(revision: PolicyRevision) -> dict[str, str]:
    limits = {
        "maxPerPayment": revision.max_per_payment,
        "dailyLimit": revision.daily_limit,
        "weeklyLimit": revision.weekly_limit,
    }
    return {"policyRevision": str(revision), **{name: format_amount(limit) for name, limit in limits.items()}}


def _of_payees(payees: Sequence[str]) -> Iterator[AuditEntry]:
    decisions = ServiceDecision.objects.filter(registration__service__in=payees).select_related("registration")
    for one in decisions:
        yield AuditEntry(
            at=one.decided_at,
            author=one.decided_by,
            action=f"service.{one.status}",
            subject_type="service",
            subject=one.registration.service_id,
            reason=one.reason,
            before=None,
            after={"status": one.status, "recipient": f"{one.registration.chain}:{one.registration.address}"},
        )


def _pause(agent_id: str, at: datetime) -> AuditEntry:
    return AuditEntry(
        at=at,
        author=FIONA,
        action="agent.paused",
        subject_type="agent",
        subject=agent_id,
        reason="It asked for more and more of the same.",
        before={"status": "active"},
        after={"status": "paused"},
    )
