"""Begin to hold a payment for a person's approval, unless its agent has very many that wait already."""

from datetime import timedelta

from foundation.kernel.errors import RateLimited
from foundation.kernel.ids import new_id
from payments.deciding.known import Known
from payments.deciding.running import NewHold
from policy.facts import Facts
from policy.rules import rules_in_force

# So that an agent that asks again and again does not fill the list of those who answer. It counts the agent's own: one
# that asks too much does not keep others of its tree from asking.
MOST_HELD = 100
_RETRY_AFTER_S = 60


def begin_hold(known: Known, facts: Facts) -> NewHold:
    """Give the hold of a payment that a rule holds, at the moment of its decision.

    Raises:
        RateLimited: as many of the agent's payments as can be wait already; not logged.
    """
    if known.held is not None and known.held.own_payments >= MOST_HELD:
        raise RateLimited(
            f"{MOST_HELD} payments of this agent wait for a person's approval already, and no more can. This one is "
            "not held, and not logged. Ask again, with the same Idempotency-Key, when some of them have ended.",
            retry_after_s=_RETRY_AFTER_S,
            counted=None,
        )
    return NewHold(new_id("pay", known.decided_at), known.decided_at + _time_to_approve(facts))


def _time_to_approve(facts: Facts) -> timedelta:
    """Give the least that any of those says who want a person asked: the agent, and those above it."""
    policies = [facts.more, *(level.facts.more for level in facts.levels)]
    asking = [more for more in policies if any(rule.holds for rule in rules_in_force(more))]
    return min(more.time_to_approve for more in asking)
