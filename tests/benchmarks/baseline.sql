-- As foundation/kernel/ids.py: ids sort by time, so that new ones go to the end of their indexes. p_rest: 16 letters.
CREATE OR REPLACE FUNCTION bench_ulid(p_at timestamptz, p_rest text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    milliseconds bigint := extract(epoch FROM p_at) * 1000;
    letters text := '';
BEGIN
    FOR position IN 0..9 LOOP
        letters := substr('0123456789abcdefghjkmnpqrstvwxyz', (milliseconds & 31)::int + 1, 1) || letters;
        milliseconds := milliseconds >> 5;
    END LOOP;
    RETURN letters || p_rest;
END $$;

-- What PostgreSQL alone can do: the rows of one approved payment, written in one function call with constants instead
-- of signatures. Same tables, indexes, triggers and constraints; values as long; same agents; durable commits.
-- `payments/deciding/sql/record.sql` writes the same rows; `tests/benchmarks/test_baseline.py` compares.
CREATE OR REPLACE FUNCTION bench_write_payment(p_agent text, p_service text, p_relayer bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    moment timestamptz := date_trunc('milliseconds', clock_timestamp());
    unique_part text := bench_ulid(moment, substr(replace(gen_random_uuid()::text, '-', ''), 1, 16));
    hash text := '0x' || encode(sha256(unique_part::bytea), 'hex');  -- random, as a chain's ids are
    total numeric;
    remaining numeric;
    relayer_nonce bigint;
BEGIN
    UPDATE policy_agent
       SET last_entry_id = 'log_' || unique_part, last_entry_hash = repeat('0', 64), last_entry_at = moment,
           spent_total = spent_total + 0.01, balance = balance - 0.01
     WHERE id = p_agent RETURNING spent_total, balance INTO total, remaining;
    UPDATE payments_relayer SET next_nonce = next_nonce + 1 WHERE id = p_relayer RETURNING next_nonce INTO relayer_nonce;
    INSERT INTO ledger_logentry (
        id, agent_id, service, amount, asset, result, rule, created_at, reason, metadata_json, policy_revision,
        payment_id, tx, explanation_json, hash, previous_hash, signature, key_id, idempotency_key, fingerprint,
        spent_total
    ) VALUES (
        'log_' || unique_part, p_agent, p_service, '0.01', 'USDC', 'approved', 'under_max_payment', moment, 'bench', NULL,
        1, 'pay_' || unique_part, hash, '{"message":"' || repeat('x', 335) || '"}', repeat('0', 64), repeat('0', 64),
        repeat('s', 86), repeat('k', 43), unique_part, decode(repeat('00', 32), 'hex'), total
    );
    INSERT INTO payments_payment (
        id, agent_id, entry_id, service_id, asset, amount, chain, recipient, escrow_id, status, created_at,
        failure_reason
    ) VALUES (
        'pay_' || unique_part, p_agent, 'log_' || unique_part, p_service, 'USDC', 0.01, 'eip155:31337',
        '0x' || repeat('1', 40), hash, 'approved', moment, ''
    );
    INSERT INTO payments_settlement (
        tx, payment_id, chain, relayer_id, is_void, nonce, raw, valid_until, state, block_hash, reason, created_at,
        changed_at, most_cost
    ) VALUES (
        hash, 'pay_' || unique_part, 'eip155:31337', p_relayer, false, relayer_nonce - 1,
        decode(repeat('00', 440), 'hex'), moment + interval '15 minutes', 'signed', '', '', moment,
        moment, 0.000261
    );
    INSERT INTO payments_leg (payment_id, tx, agent_id, chain, is_void, is_live, most_cost)
    VALUES ('pay_' || unique_part, hash, p_agent, 'eip155:31337', false, true, 0.000261);
    INSERT INTO ledger_balancemovement (
        agent_id, kind, amount, balance_after, payment_id, author, reason, created_at
    ) VALUES (p_agent, 'payment', -0.01, remaining, 'pay_' || unique_part, 'policy', '', moment);
END $$;
