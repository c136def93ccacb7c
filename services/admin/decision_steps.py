"""What can be decided on services in the console."""

from dataclasses import dataclass

from services import approvals
from services.models import ServiceStatus


@dataclass(frozen=True, slots=True)
class Step:
    """A decision: the kind of change that it is, what it is called, and what it means.

    `lets_pay`: agents can pay the services then.
    """

    kind: str
    title: str
    explanation: str
    lets_pay: bool = False


APPROVE = Step(
    approvals.KIND,
    "Approve",
    "You are about to approve exactly what is asked now. Agents can then pay these recipients. A registration that "
    "changes before you confirm is not approved.",
    lets_pay=True,
)
ENABLE = Step(
    approvals.ENABLE,
    "Enable",
    "Agents can pay these payees again, at the recipients that were approved.",
    lets_pay=True,
)
REJECT = Step(
    approvals.REJECT,
    "Reject",
    "Agents cannot pay these payees. The same registration can be taken up again later; a changed one waits for "
    "approval by itself.",
)
DISABLE = Step(
    approvals.DISABLE,
    "Disable",
    "No payment to these payees is approved any more, until they are enabled again. Payments that were approved "
    "already are still made.",
)
REOPEN = Step(
    approvals.REOPEN,
    "Take up again",
    "These registrations were rejected. They wait for approval once more, as they were registered.",
)


# The actions that a service's status admits: its page has no other buttons.
POSSIBLE = {
    ServiceStatus.PENDING_APPROVAL: ("approve", "reject", "tag"),
    ServiceStatus.APPROVED: ("disable", "tag"),
    ServiceStatus.DISABLED: ("enable", "tag"),
    ServiceStatus.REJECTED: ("reopen", "tag"),
}
