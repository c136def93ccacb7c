"""The work queue: everything that waits for a person, the worst first, as far as that person may see it."""

from collections.abc import Callable
from dataclasses import replace

from django.contrib.auth.models import AnonymousUser, User

from backoffice.queue.alarms import (
    find_overdrawn_pools,
    find_signer_out_of_service,
    find_troubles_of_chains,
    find_unknown_outflows,
    find_used_up_gas_budgets,
)
from backoffice.queue.decisions import find_approvals, find_deposits_aside, find_expiring_keys, find_requests
from backoffice.queue.items import Item, Severity
from backoffice.queue.money import find_agents_in_need, find_failed_payments, find_unsettled_payments
from backoffice.queue.operations import (
    find_assets_out_of_service,
    find_lying_nodes,
    find_short_relayers,
    find_unseen_chains,
)
from backoffice.queue.payees import find_payees_out_of_service
from backoffice.queue.sign_ins import find_lock_outs
from backoffice.queue.webhooks import find_failing_webhooks
from foundation.recent import Recent

# To add a kind of errand, write its finder and put it here: errands that matter equally stand in this order.
FINDERS: tuple[Callable[[], list[Item]], ...] = (
    find_signer_out_of_service,
    find_troubles_of_chains,
    find_unseen_chains,
    find_lying_nodes,
    find_assets_out_of_service,
    find_short_relayers,
    find_overdrawn_pools,
    find_unknown_outflows,
    find_payees_out_of_service,
    find_requests,
    find_approvals,
    find_deposits_aside,
    find_agents_in_need,
    find_unsettled_payments,
    find_used_up_gas_budgets,
    find_failing_webhooks,
    find_lock_outs,
    find_failed_payments,
    find_expiring_keys,
)
_ORDER = list(Severity)
_LOOK = "Look"


def find_work() -> list[Item]:
    """Find all that waits for somebody, the worst first."""
    return sorted((item for find in FINDERS for item in find()), key=lambda item: _ORDER.index(item.severity))


def seen_by(person: User | AnonymousUser, items: list[Item]) -> list[Item]:
    """Leave out what a person may not see; where they may not act, the button only offers to look."""
    return [
        item if not item.acts or person.has_perm(item.acts) else replace(item, button=_LOOK)
        for item in items
        if person.has_perm(item.permission)
    ]


recent_work = Recent(find_work)
