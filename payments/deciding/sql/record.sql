-- The second half of a batch of payments: record its decisions, all of them or none.
--
-- Each argument is an array of rows as JSON, their members named like the columns. `p_agents` are the columns of the agents after
-- the batch, with the sum that each has `paid`, and whether its policy counts payments. The entries carry the running totals.
CREATE OR REPLACE FUNCTION payments_record_batch(
    p_entries json, p_agents json, p_payments json, p_settlements json, p_legs json, p_movements json, p_events json
) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    agent record;
    queue record;
    paid record;
    counted text[];
BEGIN
    INSERT INTO ledger_logentry SELECT * FROM json_populate_recordset(NULL::ledger_logentry, p_entries);

    -- One by one: the planner would read all agents to join them.
    FOR agent IN
        SELECT * FROM json_to_recordset(p_agents) AS d(
            id text, last_entry_id text, last_entry_hash text, last_entry_at timestamptz, spent_total numeric, paid numeric,
            counts_payments boolean)
    LOOP
        UPDATE policy_agent a
           SET last_entry_id = agent.last_entry_id, last_entry_hash = agent.last_entry_hash,
               last_entry_at = agent.last_entry_at, spent_total = agent.spent_total, balance = a.balance - agent.paid
         WHERE a.id = agent.id;
        IF agent.counts_payments AND agent.paid > 0 THEN counted := counted || agent.id; END IF;
    END LOOP;

    IF p_payments IS NOT NULL THEN
        INSERT INTO payments_payment SELECT * FROM json_populate_recordset(NULL::payments_payment, p_payments);
        IF counted IS NOT NULL THEN
            FOR paid IN
                SELECT p.agent_id, p.service_id, p.amount, p.entry_id, COALESCE(p.approved_at, p.created_at) AS at
                  FROM json_to_recordset(p_payments) AS p(
                       agent_id text, service_id text, amount numeric, entry_id text, created_at timestamptz, approved_at timestamptz)
                 WHERE p.agent_id = ANY (counted)
            LOOP
                PERFORM ledger_tally_payment(paid.agent_id, paid.service_id, paid.amount, paid.entry_id, paid.at);
            END LOOP;
        END IF;
        INSERT INTO payments_settlement SELECT * FROM json_populate_recordset(NULL::payments_settlement, p_settlements);
        -- Those of a transaction without bytes, as the demo's history has them, the trigger of migration 0018 has made. No table is asked:
        -- its plan would read the whole of it.
        INSERT INTO payments_leg SELECT * FROM json_populate_recordset(NULL::payments_leg, p_legs)
         WHERE tx <> ALL (ARRAY(SELECT s.tx FROM json_to_recordset(p_settlements) AS s(tx text, raw text) WHERE s.raw = '\x'));
        FOR queue IN
            SELECT relayer_id, max(nonce) + 1 AS next_nonce, count(DISTINCT nonce) - count(*) AS more
              FROM json_to_recordset(p_settlements) AS s(tx text, relayer_id bigint, nonce bigint)
              JOIN json_to_recordset(p_legs) AS l(tx text) USING (tx) GROUP BY relayer_id
        LOOP
            -- The gas money is counted in payments: a transaction of several needs that of so many.
            UPDATE payments_relayer r SET next_nonce = queue.next_nonce, funded_until = r.funded_until + queue.more
             WHERE r.id = queue.relayer_id AND queue.next_nonce IS NOT NULL;
        END LOOP;
        INSERT INTO ledger_balancemovement
                    (agent_id, kind, amount, balance_after, payment_id, author, reason, created_at)
             SELECT agent_id, 'payment', amount, balance_after, payment_id, 'policy', '', created_at
               FROM json_populate_recordset(NULL::ledger_balancemovement, p_movements);
    END IF;

    IF p_events IS NOT NULL THEN
        INSERT INTO services_webhookevent SELECT * FROM json_populate_recordset(NULL::services_webhookevent, p_events);
    END IF;
END $$;
