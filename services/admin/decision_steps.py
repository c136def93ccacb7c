"""What can be decided on services in the console."""

from collections.abc import Callable
from dataclasses import dataclass

from services.models import Service, ServiceStatus
from services.operations import approve_service, disable_service, enable_service, reject_service, reopen_service


@dataclass(frozen=True, slots=True)
class Step:
    """A decision: its operation, what it is called before and after, and what it means.

    `lets_pay`: agents can pay the services then.
    """

    operation: Callable[..., Service]
    title: str
    done: str
    explanation: str
    lets_pay: bool = False


APPROVE = Step(
    approve_service,
    "Approve",
    "Approved",
    "You are about to approve exactly what is asked now. Agents can then pay these recipients. A registration that "
    "changes before you confirm is not approved.",
    lets_pay=True,
)
ENABLE = Step(
    enable_service,
    "Enable",
    "Enabled",
    "Agents can pay these payees again, at the recipients that were approved.",
    lets_pay=True,
)
REJECT = Step(
    reject_service,
    "Reject",
    "Rejected",
    "Agents cannot pay these payees. The same registration can be taken up again later; a changed one waits for "
    "approval by itself.",
)
DISABLE = Step(
    disable_service,
    "Disable",
    "Disabled",
    "No payment to these payees is approved any more, until they are enabled again. Payments that were approved "
    "already are still made.",
)
REOPEN = Step(
    reopen_service,
    "Take up again",
    "Took up again",
    "These registrations were rejected. They wait for approval once more, as they were registered.",
)


# The actions that a service's status admits: its page has no other buttons.
POSSIBLE = {
    ServiceStatus.PENDING_APPROVAL: ("approve", "reject"),
    ServiceStatus.APPROVED: ("disable",),
    ServiceStatus.DISABLED: ("enable",),
    ServiceStatus.REJECTED: ("reopen",),
}
