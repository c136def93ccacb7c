-- Sum the payments that failed within a span of time up by the days on which they were approved.
SELECT (COALESCE(approved_at, created_at) AT TIME ZONE 'UTC')::date, agent_id, service_id, asset, chain, 'failed', '', count(*), sum(amount)
  FROM payments_payment
 WHERE status = 'failed' AND failed_at >= %(failed_from)s AND failed_at < %(failed_to)s
   AND COALESCE(approved_at, created_at) >= %(decided_from)s AND COALESCE(approved_at, created_at) < %(decided_to)s
 GROUP BY 1, 2, 3, 4, 5
