-- Payments as `GET /v1/payments/{id}` shows them: a row for each of their transactions, the newest payment first, and of each
-- payment the newest transaction. What its payee takes itself (x402) has none until that is found on the chain.
--
-- A function, because its plan is kept by the session: to plan this takes ten times as long as to run it. Such a plan may have
-- been made while the tables were nearly empty: it shall look each payment up all the same.
-- A transaction that makes several payments is shown by each of them; where it went on without this one, it has failed to pay it.
--
-- Releases until 0.2 call `payments_state(text)`, which stays in the databases that they made.
CREATE OR REPLACE FUNCTION payments_states_2(p_payments text[]) RETURNS TABLE (
    id text, status text, amount text, asset text, service_id text, policy_revision int, spent_today text,
    created_at timestamptz, agent_id text, recipient text, reason text, metadata_json text, entry_id text,
    settled_at timestamptz, failed_at timestamptz, failure_reason text, escrow_id text, tx text, tx_state text,
    tx_created_at timestamptz
) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT p.id::text, p.status::text, e.amount::text, p.asset::text, p.service_id::text, e.policy_revision,
           e.explanation_json::json ->> 'spentToday', p.created_at, p.agent_id::text, p.chain || ':' || p.recipient,
           e.reason, e.metadata_json, p.entry_id::text, p.settled_at, p.failed_at, p.failure_reason::text,
           p.escrow_id::text, s.tx::text, CASE WHEN l.skipped IS NULL THEN s.state ELSE 'failed' END::text, s.created_at
      FROM payments_payment p
      JOIN ledger_logentry e ON e.id = p.entry_id
      LEFT JOIN payments_leg l ON l.payment_id = p.id AND NOT l.is_void
      LEFT JOIN payments_settlement s ON s.tx = l.tx
     WHERE p.id = ANY (p_payments)
     ORDER BY p.id DESC, s.created_at DESC, s.tx DESC;
END $$;

-- Release 0.3 calls this one, which does not tell the escrow's id. It goes with the release after this one.
CREATE OR REPLACE FUNCTION payments_states(p_payments text[]) RETURNS TABLE (
    id text, status text, amount text, asset text, service_id text, policy_revision int, spent_today text,
    created_at timestamptz, agent_id text, recipient text, reason text, metadata_json text, entry_id text,
    settled_at timestamptz, failed_at timestamptz, failure_reason text, tx text, tx_state text, tx_created_at timestamptz
) LANGUAGE sql STABLE
AS $$
    SELECT id, status, amount, asset, service_id, policy_revision, spent_today, created_at, agent_id, recipient, reason,
           metadata_json, entry_id, settled_at, failed_at, failure_reason, tx, tx_state, tx_created_at
      FROM payments_states_2(p_payments);
$$;
