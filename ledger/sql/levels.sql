-- What agents pay, as those above them count it: running totals, as in windows.sql.
--
-- `ledger_levelpayment` has a row for each agent that was above the payer when a payment was approved. It stays when the payer is moved
-- to another parent: what was paid within a budget counts in that one. Its rows are written under the lock of the root, in the order of
-- time, so that `at` never falls while `number` grows.

-- What all below an agent have paid in (p_since, now]: the amount, and the number of payments. Without what was given back.
CREATE OR REPLACE FUNCTION ledger_below_since(p_level text, p_since timestamptz) RETURNS numeric[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    newest record;
    before record;
    returned record;
BEGIN
    SELECT l.spent, l.number INTO newest FROM ledger_levelpayment l
     WHERE l.level_id = p_level ORDER BY l.at DESC, l.number DESC LIMIT 1;
    IF NOT FOUND THEN RETURN ARRAY[0, 0]; END IF;
    SELECT l.spent, l.number INTO before FROM ledger_levelpayment l
     WHERE l.level_id = p_level AND l.at <= p_since ORDER BY l.at DESC, l.number DESC LIMIT 1;
    SELECT COALESCE(sum(l.amount), 0) AS amount, count(*) AS payments INTO returned FROM ledger_levelpayment l
     WHERE l.level_id = p_level AND l.is_returned AND l.at > p_since;
    RETURN ARRAY[newest.spent - COALESCE(before.spent, 0) - returned.amount,
                 newest.number - COALESCE(before.number, 0) - returned.payments];
END $$;

-- The same of what they have paid to one payee.
CREATE OR REPLACE FUNCTION ledger_payee_below_since(p_level text, p_payee text, p_since timestamptz) RETURNS numeric[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    newest record;
    before record;
    returned record;
BEGIN
    SELECT l.payee_spent, l.payee_number INTO newest FROM ledger_levelpayment l
     WHERE l.level_id = p_level AND l.payee = p_payee ORDER BY l.at DESC, l.number DESC LIMIT 1;
    IF NOT FOUND THEN RETURN ARRAY[0, 0]; END IF;
    SELECT l.payee_spent, l.payee_number INTO before FROM ledger_levelpayment l
     WHERE l.level_id = p_level AND l.payee = p_payee AND l.at <= p_since ORDER BY l.at DESC, l.number DESC LIMIT 1;
    SELECT COALESCE(sum(l.amount), 0) AS amount, count(*) AS payments INTO returned FROM ledger_levelpayment l
     WHERE l.level_id = p_level AND l.is_returned AND l.at > p_since AND l.payee = p_payee;
    RETURN ARRAY[newest.payee_spent - COALESCE(before.payee_spent, 0) - returned.amount,
                 newest.payee_number - COALESCE(before.payee_number, 0) - returned.payments];
END $$;

-- Counts approved payments at those above their payers; rows of JSON with the columns of the table that are not worked out here. The
-- caller holds the locks of all these agents.
CREATE OR REPLACE FUNCTION ledger_count_above(p_payments json) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
DECLARE
    one record;
    newest record;
    of_payee record;
BEGIN
    FOR one IN
        SELECT * FROM json_to_recordset(p_payments) AS p(level_id text, payment_id text, payee text, at timestamptz, amount numeric)
    LOOP
        SELECT l.number, l.spent INTO newest FROM ledger_levelpayment l
         WHERE l.level_id = one.level_id ORDER BY l.at DESC, l.number DESC LIMIT 1;
        SELECT l.payee_number, l.payee_spent INTO of_payee FROM ledger_levelpayment l
         WHERE l.level_id = one.level_id AND l.payee = one.payee ORDER BY l.at DESC, l.number DESC LIMIT 1;
        INSERT INTO ledger_levelpayment
                    (level_id, number, payment_id, payee, at, amount, spent, payee_number, payee_spent)
             VALUES (one.level_id, COALESCE(newest.number, 0) + 1, one.payment_id, one.payee, one.at, one.amount,
                     COALESCE(newest.spent, 0) + one.amount,
                     COALESCE(of_payee.payee_number, 0) + 1, COALESCE(of_payee.payee_spent, 0) + one.amount);
    END LOOP;
END $$;

-- What is given back leaves the windows of those above, too.
CREATE OR REPLACE FUNCTION ledger_level_return() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ledger_levelpayment SET is_returned = true WHERE payment_id = NEW.payment_id;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER level_return AFTER INSERT ON ledger_balancemovement
    FOR EACH ROW WHEN (NEW.kind = 'return') EXECUTE FUNCTION ledger_level_return();

-- What was in the future when the clock of an agent was repaired counts as paid at that moment by those above it: later than it was.
CREATE OR REPLACE FUNCTION ledger_repair_levels() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ledger_levelpayment SET at = NEW.repaired_at
     WHERE at > NEW.repaired_at AND level_id = ANY (SELECT unnest(a.ancestors || a.id) FROM policy_agent a WHERE a.id = NEW.agent_id);
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER repair_levels AFTER INSERT ON ledger_clockrepair
    FOR EACH ROW EXECUTE FUNCTION ledger_repair_levels();

-- What waits for a person's approval counts at those above the agent now, and will be judged by them.
CREATE OR REPLACE FUNCTION ledger_move_holds() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ledger_hold SET ancestors = NEW.ancestors WHERE agent_id = NEW.id AND ended_at IS NULL;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER move_holds AFTER UPDATE OF ancestors ON policy_agent
    FOR EACH ROW EXECUTE FUNCTION ledger_move_holds();

-- What waits for a person's approval of an agent and of all below it, but one payment (null: all): the amount and the number, the same of
-- what is for one payee, and the amount that is the agent's own. Null: nothing.
CREATE OR REPLACE FUNCTION ledger_held(p_agent policy_agent, p_payee text, p_but text) RETURNS numeric[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    held numeric[];
BEGIN
    SELECT ARRAY[sum(h.amount), count(*), COALESCE(sum(h.amount) FILTER (WHERE h.service = p_payee), 0),
                 count(*) FILTER (WHERE h.service = p_payee), COALESCE(sum(h.amount) FILTER (WHERE h.agent_id = p_agent.id), 0)]
      INTO held
      FROM (SELECT o.id, o.agent_id, o.service, o.amount FROM ledger_hold o WHERE o.agent_id = p_agent.id AND o.ended_at IS NULL
             UNION ALL
            SELECT b.id, b.agent_id, b.service, b.amount FROM ledger_hold b
             WHERE p_agent.ancestors IS NOT NULL AND b.ended_at IS NULL AND b.ancestors @> ARRAY[p_agent.id::varchar]) h
     WHERE h.id IS DISTINCT FROM p_but HAVING count(*) > 0;
    RETURN held;
END $$;
