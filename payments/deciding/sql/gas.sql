-- Gas money: what relayers have left, and what agents have used up. In units of the chain's own coin.

-- Whether a relayer without nonces can pay for one transaction more, at the most that it can cost, beside all that it has
-- under way. Until the caller's transaction ends, nobody else can find the same money.
--
-- Where there is plenty, callers do not wait for each other, and do not see each other's payments: so there has to be
-- room for as many as there can be connections. Where there is less than twice that, they take turns.
CREATE OR REPLACE FUNCTION payments_has_gas_money(p_relayer bigint) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    at_once int := current_setting('max_connections')::int;
BEGIN
    -- 5: see allowance/database.py. Whoever takes turns waits for those who did not.
    SELECT CASE WHEN spendable >= 2 * at_once * most_cost THEN at_once ELSE 1 END INTO at_once
      FROM payments_relayer WHERE id = p_relayer;
    IF at_once > 1 THEN
        PERFORM pg_advisory_xact_lock_shared(5, hashtext(p_relayer::text));
    ELSE
        PERFORM pg_advisory_xact_lock(5, hashtext(p_relayer::text));
    END IF;
    RETURN (
        SELECT r.spendable - COALESCE(sum(s.most_cost), 0) >= at_once * r.most_cost
          FROM payments_relayer r LEFT JOIN payments_settlement s
            ON s.chain = r.chain AND s.relayer_id = r.id AND s.state IN ('signed', 'broadcast', 'included')
         WHERE r.id = p_relayer GROUP BY r.id
    );
END $$;

-- What an agent's transactions on a chain have cost in the 24 hours after a moment, the hour in which it lies as a whole,
-- and what those whose cost is not known yet can cost at most. Clocks differ: an hour may have begun for whoever noted a
-- cost. What is further ahead is of a clock that had jumped, and counts when it is time.
CREATE OR REPLACE FUNCTION payments_gas_since(p_agent text, p_chain text, p_since timestamptz) RETURNS numeric
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $$
BEGIN
    RETURN
        COALESCE((SELECT sum(cost) FROM payments_agentgas
                   WHERE agent_id = p_agent AND chain = p_chain AND hour > p_since - interval '1 hour'
                     AND hour <= p_since + interval '25 hours'), 0)
      + COALESCE((SELECT sum(most_cost) FROM payments_settlement
                   WHERE agent_id = p_agent AND chain = p_chain AND cost IS NULL AND most_cost IS NOT NULL
                     AND state IN ('signed', 'broadcast', 'included', 'final', 'failed')), 0);
END $$;
