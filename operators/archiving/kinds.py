"""The kinds of rows that are archived: which of them are over, how they are written down, and how they are removed.

The statements stand here, and not in the apps: together they say what ever leaves the database. The decision log,
movements, payments, transactions, approvals and the audit never do.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from foundation.groups import WHOLE, Group, every_group

# A SELECT gives rows of: their key (text), the number or text that orders them, their month, and themselves as JSON.
# It begins behind `after` and gives at most `limit`. A DELETE takes `keys`, and looks again at what it may remove.


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of rows. `start` comes before the first key of `select`; `prepare` runs in the transaction of `delete`.

    `is_of_groups`: rows of each group of agents; each counts its own keys.
    """

    name: str
    start: str | int
    select: str
    delete: str
    prepare: str = ""
    is_of_groups: bool = False

    @property
    def places(self) -> Sequence[Group]:
        """List the groups whose rows these are; `WHOLE`: of none."""
        return every_group() if self.is_of_groups else (WHOLE,)


_MONTH = "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM')"

# An event, its delivery and all attempts at it. Those that wait, and those that were tried lately, stay whole.
_IS_OVER = """
    delivery.state <> 'waiting' AND NOT EXISTS (
        SELECT FROM services_webhookattempt AS attempt
         WHERE attempt.delivery_id = delivery.event_id AND attempt.started_at >= %(before)s)
"""
DELIVERIES = Kind(
    name="deliveries",
    start="",
    select=f"""
        SELECT event.id, event.id, {_MONTH.format("event.created_at")}, jsonb_build_object(
                   'event', to_jsonb(event), 'delivery', to_jsonb(delivery), 'attempts', (
                   SELECT coalesce(jsonb_agg(to_jsonb(attempt) ORDER BY attempt.id), '[]')
                     FROM services_webhookattempt AS attempt WHERE attempt.delivery_id = event.id))::text
          FROM services_webhookevent AS event JOIN services_webhookdelivery AS delivery ON delivery.event_id = event.id
         WHERE event.id > %(after)s AND event.created_at < %(before)s AND {_IS_OVER}
         ORDER BY event.id LIMIT %(limit)s
    """,  # noqa: S608 - our own condition
    # What staff are sending again just now is locked, and stays.
    delete=f"""
        WITH over AS MATERIALIZED (
            SELECT event_id
              FROM services_webhookdelivery AS delivery JOIN services_webhookevent AS event ON event.id = event_id
             WHERE event_id = ANY(%(keys)s) AND event.created_at < %(before)s AND {_IS_OVER}
             ORDER BY event_id FOR UPDATE OF delivery SKIP LOCKED),
        attempts AS (DELETE FROM services_webhookattempt WHERE delivery_id IN (SELECT event_id FROM over)),
        deliveries AS (DELETE FROM services_webhookdelivery WHERE event_id IN (SELECT event_id FROM over))
        DELETE FROM services_webhookevent WHERE id IN (SELECT event_id FROM over)
    """,  # noqa: S608 - our own condition
    is_of_groups=True,
)

# The changes of state of transactions that have ended, and whose payments have.
_HAS_ENDED = """
    transition.created_at < %(before)s AND EXISTS (
        SELECT FROM payments_settlement AS settlement
         WHERE settlement.tx = transition.settlement_id AND settlement.changed_at < %(before)s
           AND settlement.state IN ('final', 'replaced', 'expired', 'failed')
           AND NOT EXISTS (
               SELECT FROM payments_leg AS leg JOIN payments_payment AS payment ON payment.id = leg.payment_id
                WHERE leg.tx = settlement.tx AND payment.status = 'approved'))
"""
TRANSITIONS = Kind(
    name="transitions",
    start=0,
    select=f"""
        SELECT transition.id::text, transition.id, {_MONTH.format("transition.created_at")}, to_jsonb(transition)::text
          FROM payments_transition AS transition
         WHERE transition.id > %(after)s AND {_HAS_ENDED} ORDER BY transition.id LIMIT %(limit)s
    """,  # noqa: S608 - our own condition
    delete=f"DELETE FROM payments_transition AS transition WHERE id = ANY(%(keys)s::bigint[]) AND {_HAS_ENDED}",  # noqa: S608
    prepare="SET LOCAL allowance.archiving = 'on'",
    is_of_groups=True,
)

# Who was signed in, from where and when. The keys of sessions are left out.
_HAS_GONE = """
    last_seen_at < %(before)s AND NOT EXISTS (
        SELECT FROM django_session AS live WHERE live.session_key = session.session_key AND expire_date > now())
"""
SESSIONS = Kind(
    name="sessions",
    start=0,
    select=f"""
        SELECT session.id::text, session.id, {_MONTH.format("session.last_seen_at")}, jsonb_build_object(
                   'id', session.id, 'user', account.username, 'ip', session.ip, 'user_agent', session.user_agent,
                   'created_at', session.created_at, 'last_seen_at', session.last_seen_at)::text
          FROM usersessions_usersession AS session JOIN auth_user AS account ON account.id = session.user_id
         WHERE session.id > %(after)s AND {_HAS_GONE} ORDER BY session.id LIMIT %(limit)s
    """,  # noqa: S608 - our own condition
    delete=f"DELETE FROM usersessions_usersession AS session WHERE id = ANY(%(keys)s::bigint[]) AND {_HAS_GONE}",  # noqa: S608
)
# Sign-ins that were tried: the ones that succeeded.
SIGN_INS = Kind(
    name="sign-ins",
    start=0,
    select=f"""
        SELECT one.id::text, one.id, {_MONTH.format("one.attempt_time")}, (to_jsonb(one) - 'session_hash')::text
          FROM axes_accesslog AS one
         WHERE one.id > %(after)s AND one.attempt_time < %(before)s ORDER BY one.id LIMIT %(limit)s
    """,  # noqa: S608 - our own column
    delete="DELETE FROM axes_accesslog WHERE id = ANY(%(keys)s::bigint[]) AND attempt_time < %(before)s",
)

KINDS = {kind.name: kind for kind in (DELIVERIES, TRANSITIONS, SESSIONS, SIGN_INS)}
# Of no use to anybody: sessions that are over, and the wrong passwords that throttled somebody long ago.
LEFTOVERS = (
    "DELETE FROM django_session WHERE expire_date < now()",
    "DELETE FROM axes_accessattempt WHERE attempt_time < %(before)s",
)
