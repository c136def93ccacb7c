-- The first half of a payment: lock the agent, then read all that its decision depends on.
--
-- A volatile function, because each statement in it takes a fresh snapshot after the lock was waited for. One plain
-- statement that locks and sums would sum what was there before it waited. Returns no row for an unknown agent, and
-- little more than `earlier_entry_id` for a known key. Waits 5 s at most for a lock.
--
-- Its name counts up when its columns change: processes of the version before call the function of theirs, which stays,
-- until the last of them is replaced.
CREATE OR REPLACE FUNCTION payments_lock_and_read_4(
    p_agent text, p_key text, p_service text, p_now timestamptz, p_request text, p_most_refusals int,
    OUT decided_at timestamptz, OUT earlier_entry_id text,
    OUT agent_status text, OUT agent_asset text, OUT balance numeric, OUT spent_total numeric,
    OUT last_entry_id text, OUT last_entry_hash text,
    OUT policy_revision int, OUT max_per_payment numeric, OUT daily_limit numeric, OUT weekly_limit numeric,
    OUT allowed_services text[], OUT spent_today numeric, OUT spent_this_week numeric, OUT is_signing boolean,
    OUT payee_status text, OUT payee_asset text, OUT payee_is_as_approved boolean, OUT payee_has_webhook boolean,
    OUT chain text, OUT recipient text,
    OUT relayer_id bigint, OUT relayer_number int, OUT relayer_address text, OUT nonce bigint,
    OUT chain_state jsonb, OUT chain_trouble text, OUT chain_observed_at timestamptz,
    OUT payee_state jsonb, OUT payee_observed_at timestamptz,
    OUT key_hash bytea, OUT is_key_used boolean,
    -- Clocks, and refusals that were told lately.
    OUT clock_at timestamptz, OUT last_entry_at timestamptz, OUT clock_repairs int,
    OUT refused_entry_id text, OUT refusing_since timestamptz,
    -- Gas money.
    OUT relayer_in_need text
) RETURNS SETOF record LANGUAGE plpgsql VOLATILE
SET lock_timeout = '5s'
SET enable_seqscan = off  -- a plan made while the log was nearly empty must not be kept when it is long
AS $$
DECLARE
    agent policy_agent%ROWTYPE;
    service services_service%ROWTYPE;
    relayer payments_relayer%ROWTYPE;
    longest_line bigint;
    is_busy boolean := false;
BEGIN
    SELECT * INTO agent FROM policy_agent WHERE id = p_agent FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    SELECT id INTO earlier_entry_id FROM ledger_logentry WHERE agent_id = p_agent AND idempotency_key = p_key;
    IF FOUND THEN
        RETURN NEXT;
        RETURN;
    END IF;

    -- Shared with all other payments, against whoever takes the signer or this service out of service: once they have
    -- returned, no payment that read it otherwise is still under way. See allowance/database.py.
    PERFORM pg_advisory_xact_lock_shared(1, hashtext('')), pg_advisory_xact_lock_shared(2, hashtext(p_service));

    -- The clock is read under the lock and never steps back, so entries of one agent are in order of commit. How far it
    -- may be behind the last entry, the caller says.
    clock_at := date_trunc('milliseconds', COALESCE(p_now, clock_timestamp()));
    last_entry_at := agent.last_entry_at;
    decided_at := greatest(clock_at, agent.last_entry_at);
    SELECT NULLIF(count(*), 0) INTO clock_repairs FROM ledger_clockrepair r WHERE r.agent_id = p_agent;
    agent_status := agent.status;
    agent_asset := agent.asset;
    balance := agent.balance;
    spent_total := agent.spent_total;
    last_entry_id := agent.last_entry_id;
    last_entry_hash := agent.last_entry_hash;
    policy_revision := agent.policy_revision;
    SELECT p.max_per_payment, p.daily_limit, p.weekly_limit, p.allowed_services
      INTO max_per_payment, daily_limit, weekly_limit, allowed_services
      FROM policy_policyrevision p WHERE p.agent_id = p_agent AND p.number = agent.policy_revision;
    spent_today := ledger_spent_since(p_agent, agent.spent_total, decided_at - interval '24 hours');
    spent_this_week := ledger_spent_since(p_agent, agent.spent_total, decided_at - interval '7 days');
    -- No row: nobody ever put the signer in service, so it is not.
    is_signing := COALESCE((SELECT s.is_signing FROM policy_signerswitch s WHERE s.id = 1), false);

    -- The newest 503 for the same request, and the moment since which there are as many refusals as a minute may have.
    SELECT e.id INTO refused_entry_id FROM ledger_logentry e
     WHERE e.agent_id = p_agent AND e.refused_request = p_request AND e.created_at <= decided_at
     ORDER BY e.created_at DESC LIMIT 1;
    SELECT e.created_at INTO refusing_since FROM ledger_logentry e
     WHERE e.agent_id = p_agent AND e.result = 'blocked'
       AND e.created_at > decided_at - interval '1 minute' AND e.created_at <= decided_at
     ORDER BY e.created_at DESC, e.id DESC OFFSET p_most_refusals - 1 LIMIT 1;

    SELECT * INTO service FROM services_service WHERE id = p_service;
    IF FOUND THEN
        payee_status := service.status;
        payee_asset := service.asset;
        payee_is_as_approved := service.approved_recipient = service.chain || ':' || service.address;
        payee_has_webhook := service.webhook_url IS NOT NULL;
        chain := service.chain;
        recipient := service.address;
    END IF;

    IF agent.status = 'active' AND service.status = 'approved' THEN
        -- A free relayer, so that agents do not queue behind one nonce; when all are busy, wait for one. Rather one whose
        -- line is short: up to a full line (16) any will do, and one that is stuck far behind the others gets none. Nor
        -- does one whose next nonce the chain has used: its payments could not land until the watcher has caught up.
        -- And none gets more than its gas money pays for, with all that it has under way.
        SELECT 64 + min(r.next_nonce - r.mined_nonce) INTO longest_line FROM payments_relayer r
         WHERE r.chain = service.chain AND r.is_enabled AND r.is_funded AND r.next_nonce >= r.mined_nonce
           AND (r.funded_until IS NULL OR r.next_nonce < r.funded_until);
        SELECT * INTO relayer FROM payments_relayer r
         WHERE r.chain = service.chain AND r.is_enabled AND r.is_funded
           AND r.next_nonce - r.mined_nonce BETWEEN 0 AND longest_line
           AND (r.funded_until IS NULL OR r.next_nonce < r.funded_until)
         ORDER BY (r.next_nonce - r.mined_nonce) / 16, random() LIMIT 1 FOR UPDATE SKIP LOCKED;
        IF longest_line IS NULL THEN
            -- Without nonces there is no line, and nothing to lock.
            SELECT * INTO relayer FROM payments_relayer r
             WHERE r.chain = service.chain AND r.is_enabled AND r.is_funded AND r.next_nonce IS NULL
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
                -- Chosen first, then locked: a query that does both goes on to another one where this one does not fit
                -- any more when its turn comes, but keeps it locked, and two who do that wait for each other.
                SELECT r.id INTO relayer_id FROM payments_relayer r
                 WHERE r.chain = service.chain AND r.is_enabled AND r.is_funded
                   AND r.next_nonce - r.mined_nonce BETWEEN 0 AND longest_line
                   AND (r.funded_until IS NULL OR r.next_nonce < r.funded_until)
                 ORDER BY random() LIMIT 1;
                SELECT * INTO relayer FROM payments_relayer r WHERE r.id = relayer_id FOR UPDATE;
                IF (relayer.is_enabled AND relayer.is_funded
                    AND relayer.next_nonce - relayer.mined_nonce BETWEEN 0 AND longest_line
                    AND (relayer.funded_until IS NULL OR relayer.next_nonce < relayer.funded_until)) IS NOT TRUE THEN
                    relayer := NULL;
                END IF;
            EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
                relayer := NULL;
            END;
        END IF;
        IF relayer.id IS NULL AND longest_line IS NULL AND NOT is_busy THEN
            SELECT r.address INTO relayer_in_need FROM payments_relayer r
             WHERE r.chain = service.chain AND r.is_enabled AND r.most_cost IS NOT NULL
               AND (NOT r.is_funded OR r.next_nonce >= r.funded_until OR r.next_nonce IS NULL)
             ORDER BY r.number LIMIT 1;
        END IF;
        relayer_id := relayer.id;
        relayer_number := relayer.number;
        relayer_address := relayer.address;
        nonce := relayer.next_nonce;
        SELECT s.state, s.observed_at,
               CASE WHEN s.mismatch <> '' THEN 'mismatch' WHEN s.stopped_reason <> '' THEN 'stopped' END
          INTO chain_state, chain_observed_at, chain_trouble
          FROM payments_chainstate s WHERE s.chain = service.chain;
        SELECT p.state, p.observed_at INTO payee_state, payee_observed_at
          FROM payments_payeestate p WHERE p.chain = service.chain AND p.address = service.address;
        -- As payments/deciding/escrow_ids.py: what the escrow knows this key by, and whether it was seen to use it without us.
        SELECT sha256(i.salt || sha256(convert_to(p_agent, 'UTF8')) || sha256(convert_to(p_key, 'UTF8')))
          INTO key_hash FROM payments_installation i WHERE i.id = 1;
        is_key_used := EXISTS (
            SELECT FROM payments_outflow o
             WHERE o.chain = service.chain AND o.escrow_id = '0x' || encode(key_hash, 'hex')
        );
    END IF;
    RETURN NEXT;
END $$;
