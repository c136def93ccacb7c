-- What so many settled payments leave in the database: the rows of their approval and of their settlement, spread over
-- the paying agents and 16 relayers that are retired since, one a second until yesterday. They count as reconciled:
-- their transactions were never on the chain.
CREATE OR REPLACE FUNCTION bench_write_history(p_agents text[], p_service text, p_count bigint) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    relayers bigint[];
    began timestamptz := date_trunc('milliseconds', clock_timestamp()) - interval '1 day' - p_count * interval '1 second';
BEGIN
    WITH retired AS (
        INSERT INTO payments_relayer (
            chain, number, address, next_nonce, is_enabled, mined_nonce, is_funded
        )
        SELECT 'eip155:31337', number, '0x' || lpad(to_hex(number), 40, '0'), 1 + p_count / 16, false, 0, false
          FROM generate_series(1000, 1015) AS number RETURNING id
    )
    SELECT array_agg(id) INTO relayers FROM retired;
    -- No foreign key is looked up, row by row: what is written here fits.
    SET LOCAL session_replication_role = replica;
    CREATE TEMPORARY TABLE history ON COMMIT DROP AS
    SELECT number,
           lpad(to_hex(number), 26, '0') AS unique_part,
           '0x' || lpad(to_hex(number), 64, '0') AS tx,
           p_agents[1 + number % cardinality(p_agents)] AS agent,
           relayers[1 + number % cardinality(relayers)] AS relayer,
           number / cardinality(relayers) AS nonce,
           began + number * interval '1 second' AS moment
      FROM generate_series(1, p_count) AS number;
    INSERT INTO ledger_logentry (
        id, agent_id, service, amount, asset, result, rule, created_at, reason, metadata_json, policy_revision,
        payment_id, tx, explanation_json, hash, previous_hash, signature, key_id, idempotency_key, fingerprint,
        spent_total
    )
    SELECT 'log_' || unique_part, agent, p_service, '0.01', 'USDC', 'approved', 'under_max_payment', moment, 'bench',
           NULL, 1, 'pay_' || unique_part, tx, '{"message":"' || repeat('x', 335) || '"}', repeat('0', 64), repeat('0', 64), repeat('s', 86),
           repeat('k', 43), unique_part, decode(repeat('00', 32), 'hex'), 0
      FROM history;
    INSERT INTO payments_payment (
        id, agent_id, entry_id, service_id, asset, amount, chain, recipient, escrow_id, status, created_at,
        settled_at, failure_reason
    )
    SELECT 'pay_' || unique_part, agent, 'log_' || unique_part, p_service, 'USDC', 0.01, 'eip155:31337',
           '0x' || repeat('1', 40), tx, 'settled', moment, moment + interval '4 seconds', ''
      FROM history;
    INSERT INTO payments_settlement (
        tx, payment_id, chain, relayer_id, is_void, nonce, raw, valid_until, state, offered_at, block_number, block_hash,
        reason, created_at, changed_at, most_cost, cost
    )
    SELECT tx, 'pay_' || unique_part, 'eip155:31337', relayer, false, nonce, decode(repeat('00', 440), 'hex'),
           moment + interval '1 hour', 'final', moment, number, tx, '', moment, moment + interval '4 seconds',
           0.000261, 0.000101
      FROM history;
    INSERT INTO payments_leg (payment_id, tx, agent_id, chain, is_void, is_live, most_cost, cost)
    SELECT 'pay_' || unique_part, tx, agent, 'eip155:31337', false, true, 0.000261, 0.000101 FROM history;
    INSERT INTO payments_transition (settlement_id, old, new, reason, created_at)
    SELECT tx, old, new, '', moment
      FROM history, (VALUES ('signed', 'broadcast'), ('broadcast', 'included'), ('included', 'final')) AS steps (old, new);
    INSERT INTO ledger_balancemovement (
        agent_id, kind, amount, balance_after, payment_id, author, reason, created_at
    )
    SELECT agent, 'payment', -0.01, 0, 'pay_' || unique_part, 'policy', '', moment FROM history;
    INSERT INTO payments_reconciliation (
        chain, asset, block_number, holds, booked, in_flight, drift, settled_until, settled_total, receipts_checked,
        unconfirmed, created_at, escrow
    ) VALUES (
        'eip155:31337', 'USDC', 0, 0, 0, 0, 0, clock_timestamp() - interval '12 hours', 0.01 * p_count, 0, '[]',
        clock_timestamp(), ''
    );
END $$;
