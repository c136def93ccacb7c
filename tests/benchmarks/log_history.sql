-- Entries that were logged before, so many of each agent in turn, evenly from one moment to another. Their running total
-- grows by p_amount with each entry (of one agent) or stays 0 (of agents that began to spend later).
CREATE OR REPLACE FUNCTION bench_write_log(
    p_agents text[], p_service text, p_count bigint, p_from timestamptz, p_to timestamptz, p_amount numeric
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO ledger_logentry (
        id, agent_id, service, amount, asset, result, rule, created_at, reason, metadata_json, policy_revision,
        payment_id, tx, explanation_json, hash, previous_hash, signature, key_id, idempotency_key, fingerprint,
        spent_total
    )
    SELECT 'log_' || unique_part, p_agents[1 + number % cardinality(p_agents)], p_service, '0.01', 'USDC', 'approved',
           'under_max_payment', moment, 'bench', NULL, 1, 'pay_' || unique_part, '0x' || lpad(to_hex(number), 64, '0'),
           '{"message":"' || repeat('x', 335) || '"}', repeat('0', 64), repeat('0', 64), repeat('s', 86),
           repeat('k', 43), unique_part, decode(repeat('00', 32), 'hex'), p_amount * number
      FROM (
          SELECT number, moment, bench_ulid(moment, lpad(to_hex(number), 16, '0')) AS unique_part
            FROM generate_series(1, p_count) AS number,
         LATERAL (SELECT date_trunc('milliseconds', p_from + (p_to - p_from) * (number::float / p_count)) AS moment)
      ) AS entries;
    IF p_amount > 0 THEN
        UPDATE policy_agent SET spent_total = p_amount * p_count, balance = balance - p_amount * p_count
         WHERE id = ANY (p_agents);
    END IF;
END $$;
