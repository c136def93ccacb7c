"""Count anew what the limits of an agent compare, from the log: a person mends with it what `verify_log` has found."""

from django.db import transaction

from foundation.database import fetch_rows
from foundation.groups import for_agent
from foundation.kernel.errors import OperationRefused
from ledger.models import Tally
from policy.places import place_anew
from policy.queries import find_revision_in_force
from staff.audit import record


@for_agent
def recount(agent_id: str, *, by: str, reason: str) -> int:
    """Record anew where an agent is in its tree, what those below it have paid, and its tallies.

    The log is what they are made from, and stays. The agent, and those who share a budget with it, wait meanwhile.
    Returns how many payments of those below it are counted.

    Raises:
        OperationRefused: no such agent, no reason, or policies that contradict each other.
    """
    if not reason.strip():
        raise OperationRefused("Say why.")
    with transaction.atomic():
        agent = place_anew(agent_id)
        of_agent = {"agent": agent_id}
        ((payments,),) = fetch_rows("SELECT ledger_level_anew(%(agent)s)", of_agent)
        if payments and agent.ancestors is None:
            agent.ancestors = []
            agent.save(update_fields=["ancestors"])
        revision = find_revision_in_force(agent_id)
        if Tally.objects.filter(agent=agent).exists() or (revision is not None and revision.counts_payments):
            fetch_rows("SELECT ledger_tally_anew(%(agent)s)", of_agent)
        above = "/".join(agent.ancestors or ())
        after = {"above": above, "paymentsBelow": payments}
        record("agent.recounted", subject_type="agent", subject=agent_id, by=by, reason=reason, after=after)
    return int(payments)
