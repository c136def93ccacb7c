-- A payment as `GET /v1/payments/{id}` shows it: one row for each of its transactions, the newest first.
--
-- A function, because its plan is kept by the session: to plan this takes ten times as long as to run it.
-- What stands behind "#" in a transaction's id is not the chain's: see `Settlement.chain_tx`.
CREATE OR REPLACE FUNCTION payments_state(p_payment text) RETURNS TABLE (
    id text, status text, agent_id text, service_id text, amount text, asset text, recipient text, reason text,
    metadata_json text, entry_id text, policy_revision int, created_at timestamptz, settled_at timestamptz,
    failed_at timestamptz, failure_reason text, tx text, tx_state text, tx_created_at timestamptz
) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT p.id::text, p.status::text, p.agent_id::text, p.service_id::text, e.amount::text, p.asset::text,
           p.chain || ':' || p.recipient, e.reason, e.metadata_json, p.entry_id::text, e.policy_revision, p.created_at,
           p.settled_at, p.failed_at, p.failure_reason::text,
           split_part(s.tx, '#', 1), s.state::text, s.created_at
      FROM payments_payment p
      JOIN ledger_logentry e ON e.id = p.entry_id
      JOIN payments_settlement s ON s.payment_id = p.id AND NOT s.is_void
     WHERE p.id = p_payment
     ORDER BY s.created_at DESC, s.tx DESC;
END $$;
