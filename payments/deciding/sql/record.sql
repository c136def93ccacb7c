-- The second half of a payment: record the decision, all of it or nothing.
--
-- Each argument is a row as JSON, its members named like the columns; the last three are null for a blocked decision,
-- p_event also for a payee without a webhook. The entry carries the agent's running total after it.
CREATE OR REPLACE FUNCTION payments_record(
    p_entry json, p_payment json, p_settlement json, p_event json
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    entry ledger_logentry%ROWTYPE := json_populate_record(NULL::ledger_logentry, p_entry);
    payment payments_payment%ROWTYPE := json_populate_record(NULL::payments_payment, p_payment);
    settlement payments_settlement%ROWTYPE := json_populate_record(NULL::payments_settlement, p_settlement);
    balance_after numeric;
BEGIN
    INSERT INTO ledger_logentry VALUES (entry.*);

    UPDATE policy_agent
       SET last_entry_id = entry.id, last_entry_hash = entry.hash, last_entry_at = entry.created_at,
           spent_total = entry.spent_total, balance = balance - COALESCE(payment.amount, 0)
     WHERE id = entry.agent_id
    RETURNING balance INTO balance_after;

    IF p_payment IS NOT NULL THEN
        INSERT INTO payments_payment VALUES (payment.*);
        INSERT INTO payments_settlement VALUES (settlement.*);
        UPDATE payments_relayer SET next_nonce = settlement.nonce + 1
         WHERE id = settlement.relayer_id AND settlement.nonce IS NOT NULL;
        INSERT INTO ledger_balancemovement
                    (agent_id, kind, amount, balance_after, payment_id, author, reason, created_at)
             VALUES (entry.agent_id, 'payment', -payment.amount, balance_after, payment.id, 'policy', '',
                     entry.created_at);
    END IF;

    IF p_event IS NOT NULL THEN
        INSERT INTO services_webhookevent SELECT * FROM json_populate_record(NULL::services_webhookevent, p_event);
    END IF;
END $$;
