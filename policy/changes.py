"""Record changes of agents, policies and the signer in the audit, in the words of the API."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from foundation.kernel.errors import OperationRefused
from policy.models import Agent, PolicyRevision, PolicyTemplate, ShadowRevision, SignerSwitch
from policy.more_limits import given
from staff.audit import record


def record_agent(agent: Agent, revision: PolicyRevision, *, by: str, reason: str) -> None:
    """Record that an agent was made, with its first policy, at the moment of that."""
    after = {"asset": agent.asset, **_policy(revision)}
    record(
        "agent.created", subject_type="agent", subject=agent.id, by=by, reason=reason, after=after,
        now=revision.created_at,
    )  # fmt: skip


def record_policy(before: PolicyRevision, after: PolicyRevision, *, by: str, reason: str) -> None:
    """Record that an agent's policy was changed, at the moment of the new revision."""
    was, is_now = _policy(before), _policy(after)
    every = dict.fromkeys((*was, *is_now))  # an optional limit that one of them has is null in the other
    record(
        "policy.changed",
        subject_type="policy",
        subject=after.agent_id,
        by=by,
        reason=reason,
        before={**every, **was},
        after={**every, **is_now},
        now=after.created_at,
    )


def record_shadow(
    action: str,
    agent_id: str,
    *,
    before: ShadowRevision | None,
    after: ShadowRevision | None = None,
    by: str,
    reason: str,
) -> None:
    """Record that limits are tried on an agent, or are not any more; None: there are none."""
    was, is_now = (None if one is None else _limits(one) for one in (before, after))
    if was is not None and is_now is not None:
        every = dict.fromkeys((*was, *is_now))
        was, is_now = {**every, **was}, {**every, **is_now}
    now = None if after is None else after.created_at
    record(action, subject_type="shadow", subject=agent_id, by=by, reason=reason, before=was, after=is_now, now=now)


def record_template(
    before: Mapping[str, Any] | None, template: PolicyTemplate, agents: Sequence[str], *, by: str, reason: str
) -> None:
    """Record that a template was made or changed, and for which agents; `before`: what `said_of` said of it."""
    after = {**said_of(template), "agents": list(agents)}
    record(
        "template.made" if before is None else "template.changed",
        subject_type="template",
        subject=template.name,
        by=by,
        reason=reason,
        before=None if before is None else {**dict.fromkeys(after.keys() - {"agents"}), **before},
        after={**dict.fromkeys(before or ()), **after},
        now=template.changed_at,
    )


def said_of(template: PolicyTemplate) -> dict[str, Any]:
    """Return what a template says, as the audit calls it."""
    return {"asset": template.asset, "version": template.version, **_limits(template)}


def record_status(agent: Agent, before: str, *, by: str, reason: str, now: datetime | None) -> None:
    """Record that an agent was paused or resumed; `now` replaces the clock."""
    record(
        "agent.paused" if agent.status == "paused" else "agent.resumed",
        subject_type="agent",
        subject=agent.id,
        by=by,
        reason=reason,
        before={"status": before},
        after={"status": agent.status},
        now=now,
    )


def record_archive(agent: Agent, *, by: str, reason: str) -> None:
    """Record that an agent was archived, or taken back."""
    is_archived = agent.archived_at is not None
    record(
        "agent.archived" if is_archived else "agent.restored",
        subject_type="agent",
        subject=agent.id,
        by=by,
        reason=reason,
        before={"archived": not is_archived},
        after={"archived": is_archived},
    )


def record_signer(switch: SignerSwitch, *, was_signing: bool, by: str, reason: str) -> None:
    """Record that the policy signer was put in or out of service."""
    record(
        "signer.started" if switch.is_signing else "signer.stopped",
        subject_type="signer",
        subject="policy signer",
        by=by,
        reason=reason,
        before={"signing": was_signing},
        after={"signing": switch.is_signing},
    )


def _policy(revision: PolicyRevision) -> dict[str, Any]:
    template = {"template": revision.template} if revision.template else {}
    return {"policyRevision": str(revision), **_limits(revision), **template}


def _limits(policy: PolicyRevision | PolicyTemplate | ShadowRevision) -> dict[str, Any]:
    return {
        "maxPerPayment": policy.max_per_payment,
        "dailyLimit": policy.daily_limit,
        "weeklyLimit": policy.weekly_limit,
        "allowedServices": policy.allowed_services,
        **_more(policy),
    }


def _more(policy: PolicyRevision | PolicyTemplate | ShadowRevision) -> dict[str, Any]:
    """Give the optional limits; where only a later release knows one, as they are written."""
    try:
        return {part.name: part.kind.json(value) for part, value in given(policy.more)}
    except OperationRefused:
        return {"moreJson": policy.more_json}
