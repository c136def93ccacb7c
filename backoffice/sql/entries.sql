-- Sum the entries of a span of ids (half-open) up by their days. Ids sort by time.
SELECT (entry.created_at AT TIME ZONE 'UTC')::date, entry.agent_id, COALESCE(service.id, ''), entry.asset,
       COALESCE(payment.chain, service.chain, ''), entry.result, entry.rule, count(*), sum(entry.amount::numeric)
  FROM ledger_logentry AS entry
  LEFT JOIN payments_payment AS payment ON payment.entry_id = entry.id
  LEFT JOIN services_service AS service ON service.id = entry.service
 WHERE entry.id >= %(first)s AND entry.id < %(end)s
 GROUP BY 1, 2, 3, 4, 5, 6, 7
