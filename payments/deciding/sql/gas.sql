-- The gas money of relayers, and the gas that agents have used. In units of the chain's own coin.

-- Returns the gas money of a relayer beyond the highest costs of all that it has in flight.
CREATE OR REPLACE FUNCTION payments_gas_left(p_relayer bigint) RETURNS numeric LANGUAGE sql VOLATILE AS $$
    SELECT r.spendable - COALESCE(sum(s.most_cost), 0)
      FROM payments_relayer r LEFT JOIN payments_settlement s
        ON s.chain = r.chain AND s.relayer_id = r.id AND s.state IN ('signed', 'broadcast', 'included')
     WHERE r.id = p_relayer GROUP BY r.id, r.spendable  -- the key alone does not say it of a view (docs/decisions/groups.md)
$$;

-- Returns for how many of so many transactions a relayer without nonces can pay the highest cost, in addition to all that it
-- has in flight. No other caller can use the same money before the caller's transaction ends.
--
-- With plenty of gas money, callers for one transaction do not wait for each other, and do not see each other's payments: so
-- the money must be enough for one transaction of every possible connection. With less than twice that, and for several
-- transactions, callers wait for each other if `p_waits`; otherwise, null.
CREATE OR REPLACE FUNCTION payments_gas_room(p_relayer bigint, p_payments int, p_waits boolean) RETURNS int
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    at_once int := current_setting('max_connections')::int;
BEGIN
    -- 5: see foundation/database.py. A caller with the exclusive lock waits for those that share it.
    SELECT CASE WHEN p_payments = 1 AND spendable >= 2 * at_once * most_cost THEN at_once ELSE 1 END INTO at_once
      FROM payments_relayer WHERE id = p_relayer;
    IF at_once > 1 AND p_waits THEN
        PERFORM pg_advisory_xact_lock_shared(5, hashtext(p_relayer::text));
    ELSIF at_once > 1 THEN
        IF NOT pg_try_advisory_xact_lock_shared(5, hashtext(p_relayer::text)) THEN RETURN NULL; END IF;
    ELSIF p_waits THEN
        PERFORM pg_advisory_xact_lock(5, hashtext(p_relayer::text));
    ELSIF NOT pg_try_advisory_xact_lock(5, hashtext(p_relayer::text)) THEN
        RETURN NULL;
    END IF;
    RETURN (
        SELECT greatest(0, least(p_payments, floor(payments_gas_left(r.id) / r.most_cost) - at_once + 1))::int
          FROM payments_relayer r WHERE r.id = p_relayer
    );
END $$;

-- Returns the costs of an agent's transactions on a chain in the 24 hours after a moment, with the whole hour of this
-- moment, and the highest possible costs of those whose cost is not known yet. Clocks differ: for the process that recorded
-- a cost, the next hour may have begun. Costs further ahead come from a clock that had jumped; they count later.
CREATE OR REPLACE FUNCTION payments_gas_since(p_agent text, p_chain text, p_since timestamptz) RETURNS numeric
LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $$
BEGIN
    RETURN
        COALESCE((SELECT sum(cost) FROM payments_agentgas
                   WHERE agent_id = p_agent AND chain = p_chain AND hour > p_since - interval '1 hour'
                     AND hour <= p_since + interval '25 hours'), 0)
      + COALESCE((SELECT sum(l.most_cost) FROM payments_leg l JOIN payments_settlement s ON s.tx = l.tx
                   WHERE l.agent_id = p_agent AND l.chain = p_chain AND l.cost IS NULL AND l.most_cost IS NOT NULL
                     AND s.cost IS NULL  -- else the release before has recorded it, which knows no shares
                     AND s.state IN ('signed', 'broadcast', 'included', 'final', 'failed')), 0);
END $$;
