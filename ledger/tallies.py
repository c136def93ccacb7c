"""Compare the tallies of an agent's payments (`sql/tallies.sql`) with the log that they are made from."""

from collections.abc import Iterator

from foundation.database import fetch_briefly
from policy.models import Agent
from policy.queries import find_revision_in_force

# Each payment twice, in all and to its payee, with the running number and sum, dated as the tallies date it.
_FROM_THE_LOG = """
    WITH paid AS (
        SELECT p.payee, e.amount::numeric AS amount, least(e.created_at, r.repaired_at) AS at, e.payment_id,
               row_number() OVER w AS payments, sum(e.amount::numeric) OVER w AS spent,
               CASE WHEN e.created_at > r.repaired_at THEN r.head_at END AS carried_until
          FROM ledger_logentry e
          LEFT JOIN ledger_clockrepair r ON r.agent_id = e.agent_id AND r.number = COALESCE(e.clock_repairs, 0) + 1
         CROSS JOIN LATERAL (VALUES (''), (e.service)) AS p(payee)
         WHERE e.agent_id = %(agent)s AND e.result = 'approved'
        WINDOW w AS (PARTITION BY p.payee ORDER BY COALESCE(e.clock_repairs, 0), e.created_at, e.id)
    )
"""
_WRONG_TALLIES = f"""
    {_FROM_THE_LOG}, summed AS (
        SELECT payee, count(*) AS payments, sum(paid.amount) AS spent, count(m.id) AS returned_payments,
               COALESCE(sum(m.amount), 0) AS returned
          FROM paid LEFT JOIN ledger_balancemovement m ON m.payment_id = paid.payment_id AND m.kind = 'return'
         GROUP BY payee
    )
    SELECT COALESCE(t.payee, s.payee)
      FROM (SELECT * FROM ledger_tally WHERE agent_id = %(agent)s) t FULL JOIN summed s ON s.payee = t.payee
     WHERE (COALESCE(t.payments, 0), COALESCE(t.spent, 0), COALESCE(t.returned_payments, 0), COALESCE(t.returned, 0))
        IS DISTINCT FROM
           (COALESCE(s.payments, 0), COALESCE(s.spent, 0), COALESCE(s.returned_payments, 0), COALESCE(s.returned, 0))
     ORDER BY 1
"""  # noqa: S608 - our own statement
# Marks are kept from some moment on.
_WRONG_MARKS = f"""
    {_FROM_THE_LOG}
    SELECT m.payee, m.payments FROM ledger_tallymark m
     WHERE m.agent_id = %(agent)s AND NOT EXISTS (
           SELECT FROM paid WHERE paid.payee = m.payee AND paid.payments = m.payments AND paid.spent = m.spent
              AND paid.at = m.at AND paid.carried_until IS NOT DISTINCT FROM m.carried_until
              AND m.carried IS NOT DISTINCT FROM CASE WHEN paid.carried_until IS NOT NULL THEN paid.amount END)
     UNION ALL
    SELECT paid.payee, paid.payments FROM paid
     WHERE paid.payments > (SELECT min(payments) FROM ledger_tallymark
                             WHERE agent_id = %(agent)s AND payee = paid.payee AND carried IS NULL)
       AND NOT EXISTS (SELECT FROM ledger_tallymark m
                        WHERE m.agent_id = %(agent)s AND m.payee = paid.payee AND m.payments = paid.payments)
     ORDER BY 1, 2
"""  # noqa: S608 - our own statement


def find_wrong_tallies(agent: Agent) -> Iterator[str]:
    """Yield a sentence for each tally, and each of their marks, that is not what the agent's log says.

    An agent may have tallies of before, which its policy does not need any more: they may end earlier.
    """
    revision = find_revision_in_force(agent.pk)
    if revision is None or not revision.counts_payments:
        return
    for (payee,) in fetch_briefly(_WRONG_TALLIES, {"agent": agent.pk}):
        yield f"The tally of {_about(payee)} is not the sum of the agent's entries."
    for payee, payments in fetch_briefly(_WRONG_MARKS, {"agent": agent.pk}):
        yield f"The mark of payment {payments} of {_about(payee)} is not what the agent's entries say."


def _about(payee: str) -> str:
    return f"what is paid to {payee}" if payee else "all payments"
