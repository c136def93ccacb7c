-- Add payments that failed within a span of time to the totals of the days on which they were approved.
INSERT INTO backoffice_dailytotal AS known (day, agent, service, asset, chain, result, rule, count, amount)
SELECT (COALESCE(approved_at, created_at) AT TIME ZONE 'UTC')::date, agent_id, service_id, asset, chain, 'failed', '', count(*), sum(amount)
  FROM payments_payment
 WHERE status = 'failed' AND failed_at >= %(failed_from)s AND failed_at < %(failed_to)s
   AND COALESCE(approved_at, created_at) >= %(decided_from)s AND COALESCE(approved_at, created_at) < %(decided_to)s
 GROUP BY 1, 2, 3, 4, 5
    ON CONFLICT (day, agent, service, asset, chain, result, rule)
    DO UPDATE SET count = known.count + EXCLUDED.count, amount = known.amount + EXCLUDED.amount
