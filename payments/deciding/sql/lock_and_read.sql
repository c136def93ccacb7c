-- The first half of a payment: lock the agent, then read all facts that its decision depends on.
--
-- A volatile function, so that each statement in it takes a fresh snapshot after waiting for the lock. A single plain
-- statement that locks and sums would sum the rows from before its wait. Returns no row for an unknown agent, and
-- only `earlier_entry_id` for a known key. Waits 5 s at most for a lock.
--
-- Rows are returned whole; `payments/deciding/locked.py` says which of their columns are selected. So a column of a row is added
-- there alone. When the columns of the function change, increase the number in its name, and keep the old function: until
-- a deployment has replaced the last process of the earlier version, that process calls it.

-- Returns whether a relayer with nonces can take another payment, apart from the length of its queue: it is enabled, the
-- chain has not used its next nonce yet, and its gas money pays for another payment. The planner puts this in
-- place of the call.
CREATE OR REPLACE FUNCTION payments_is_ready(r payments_relayer) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT r.is_enabled AND r.is_funded AND r.next_nonce >= r.mined_nonce
       AND (r.funded_until IS NULL OR r.next_nonce < r.funded_until)
$$;

CREATE OR REPLACE FUNCTION payments_lock_and_read_5(
    p_agent text, p_key text, p_service text, p_now timestamptz, p_request text, p_most_refusals int,
    OUT earlier_entry_id text,
    OUT decided_at timestamptz, OUT clock_at timestamptz, OUT clock_repairs int,
    OUT spent_today numeric, OUT spent_this_week numeric,
    OUT refused_entry_id text, OUT refusing_since timestamptz,
    OUT is_signing boolean, OUT key_hash bytea, OUT is_key_used boolean, OUT relayer_in_need text,
    OUT agent policy_agent, OUT policy policy_policyrevision,
    OUT payee services_service, OUT payee_state payments_payeestate,
    OUT relayer payments_relayer, OUT chain payments_chainstate
) RETURNS SETOF record LANGUAGE plpgsql VOLATILE
SET lock_timeout = '5s'
SET enable_seqscan = off  -- a plan made while the log was nearly empty must not be kept when it is long
AS $$
DECLARE
    longest_line bigint;
    chosen_id bigint;
    is_busy boolean := false;
BEGIN
    SELECT * INTO agent FROM policy_agent a WHERE a.id = p_agent FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    SELECT e.id INTO earlier_entry_id FROM ledger_logentry e WHERE e.agent_id = p_agent AND e.idempotency_key = p_key;
    IF FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;

    -- Payments share these locks; an operation that takes the signer or this service out of service holds them alone. Once
    -- it has returned, no payment that read the old state is still in flight. See allowance/database.py.
    PERFORM pg_advisory_xact_lock_shared(1, hashtext('')), pg_advisory_xact_lock_shared(2, hashtext(p_service));

    -- The clock is read under the lock and never steps back, so entries of one agent are in order of commit. The caller
    -- decides how far the clock may be behind the last entry.
    clock_at := date_trunc('milliseconds', COALESCE(p_now, clock_timestamp()));
    decided_at := greatest(clock_at, agent.last_entry_at);
    SELECT NULLIF(count(*), 0) INTO clock_repairs FROM ledger_clockrepair r WHERE r.agent_id = p_agent;
    SELECT * INTO policy FROM policy_policyrevision p WHERE p.agent_id = p_agent AND p.number = agent.policy_revision;
    spent_today := ledger_spent_since(p_agent, agent.spent_total, decided_at - interval '24 hours');
    spent_this_week := ledger_spent_since(p_agent, agent.spent_total, decided_at - interval '7 days');
    -- No row: the signer was never put in service.
    is_signing := COALESCE((SELECT s.is_signing FROM policy_signerswitch s WHERE s.id = 1), false);

    -- The newest 503 for the same request, and the moment since which the agent has had the highest allowed
    -- number of refusals.
    SELECT e.id INTO refused_entry_id FROM ledger_logentry e
     WHERE e.agent_id = p_agent AND e.refused_request = p_request AND e.created_at <= decided_at
     ORDER BY e.created_at DESC LIMIT 1;
    SELECT e.created_at INTO refusing_since FROM ledger_logentry e
     WHERE e.agent_id = p_agent AND e.result = 'blocked'
       AND e.created_at > decided_at - interval '1 minute' AND e.created_at <= decided_at
     ORDER BY e.created_at DESC, e.id DESC OFFSET p_most_refusals - 1 LIMIT 1;

    SELECT * INTO payee FROM services_service s WHERE s.id = p_service;

    IF agent.status = 'active' AND payee.status = 'approved' THEN
        -- Choose a relayer that is not locked, so that agents do not wait for the same nonce; if all are locked, wait for one.
        -- Prefer a short queue, where queues of up to 16 count as equal. A relayer that is stuck far behind the others gets
        -- no payment, nor does one whose next nonce the chain has used: its payments could not be included before the
        -- watcher has caught up. And no relayer gets more than its gas money pays for, with all that it has in flight.
        SELECT 64 + min(r.next_nonce - r.mined_nonce) INTO longest_line FROM payments_relayer r
         WHERE r.chain = payee.chain AND payments_is_ready(r);
        SELECT * INTO relayer FROM payments_relayer r
         WHERE r.chain = payee.chain AND payments_is_ready(r) AND r.next_nonce - r.mined_nonce <= longest_line
         ORDER BY (r.next_nonce - r.mined_nonce) / 16, random() LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF longest_line IS NULL THEN
            -- Without nonces there is no queue, and nothing to lock.
            SELECT * INTO relayer FROM payments_relayer r
             WHERE r.chain = payee.chain AND r.is_enabled AND r.is_funded AND r.next_nonce IS NULL
             ORDER BY random() LIMIT 1;
            BEGIN
                IF relayer.spendable IS NOT NULL AND NOT payments_has_gas_money(relayer.id) THEN
                    relayer := NULL;
                END IF;
            EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
                relayer := NULL;
                is_busy := true;
            END;
        ELSIF NOT FOUND THEN
            BEGIN
                -- Choose first, then lock. A query that does both would, if its relayer does not fit any more after the
                -- wait, go on to another one and keep the first one locked: two such queries would wait for each other.
                SELECT r.id INTO chosen_id FROM payments_relayer r
                 WHERE r.chain = payee.chain AND payments_is_ready(r) AND r.next_nonce - r.mined_nonce <= longest_line
                 ORDER BY random() LIMIT 1;
                SELECT * INTO relayer FROM payments_relayer r WHERE r.id = chosen_id FOR UPDATE;
                IF (payments_is_ready(relayer) AND relayer.next_nonce - relayer.mined_nonce <= longest_line)
                    IS NOT TRUE THEN
                    relayer := NULL;
                END IF;
            EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
                relayer := NULL;
            END;
        END IF;
        IF relayer.id IS NULL AND longest_line IS NULL AND NOT is_busy THEN
            SELECT r.address INTO relayer_in_need FROM payments_relayer r
             WHERE r.chain = payee.chain AND r.is_enabled AND r.most_cost IS NOT NULL
               AND (NOT r.is_funded OR r.next_nonce >= r.funded_until OR r.next_nonce IS NULL)
             ORDER BY r.number LIMIT 1;
        END IF;
        SELECT * INTO chain FROM payments_chainstate s WHERE s.chain = payee.chain;
        SELECT * INTO payee_state FROM payments_payeestate p WHERE p.chain = payee.chain AND p.address = payee.address;
        -- As payments/deciding/escrow_ids.py: the id of this key in the escrow, and whether the escrow used it without us.
        SELECT sha256(i.salt || sha256(convert_to(p_agent, 'UTF8')) || sha256(convert_to(p_key, 'UTF8')))
          INTO key_hash FROM payments_installation i WHERE i.id = 1;
        is_key_used := EXISTS (
            SELECT FROM payments_outflow o
             WHERE o.chain = payee.chain AND o.escrow_id = '0x' || encode(key_hash, 'hex')
        );
    END IF;
    RETURN NEXT;
END $$;
