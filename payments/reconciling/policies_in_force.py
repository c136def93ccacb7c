"""Compare the policies that payments were judged by with those that were in force."""

from collections.abc import Iterator

from django.db.models import Max

from foundation.kernel.times import LARGEST_SKEW, utc_now
from ledger.models import ClockRepair, LogEntry
from policy.models import Agent, PolicyRevision


def find_wrong_revision(agent: Agent) -> Iterator[str]:
    """Yield a sentence if the policy that an agent is judged by is not its newest revision."""
    newest = agent.revisions.aggregate(newest=Max("number"))["newest"]
    if agent.policy_revision != newest:
        yield f"Its policy is recorded as revision {agent.policy_revision}; its newest revision is {newest}."


def find_outdated(entry: LogEntry, policy: PolicyRevision) -> Iterator[str]:
    """Yield a sentence if there was a later revision of a policy already when an approval was judged by it.

    `policy`: the payer's, or that of an agent above it. Moments of different clocks may differ by `LARGEST_SKEW`.
    """
    later = PolicyRevision.objects.filter(agent=policy.agent_id, number=policy.number + 1)
    made_at = later.values_list("created_at", flat=True).first()
    if made_at is not None and made_at <= entry.created_at - LARGEST_SKEW and not _is_of_the_future(entry):
        yield f"It was judged by {policy} of {policy.agent_id} when that had the policy polrev_{policy.number + 1}."


def _is_of_the_future(entry: LogEntry) -> bool:
    """Tell whether a clock that was ahead has dated an entry, so that it was made earlier than it says."""
    repairs = ClockRepair.objects.filter(agent=entry.agent_id, number__gt=entry.clock_repairs or 0)
    return entry.created_at > utc_now() + LARGEST_SKEW or repairs.filter(repaired_at__lt=entry.created_at).exists()
