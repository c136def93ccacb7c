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
    carried record;
BEGIN
    SELECT l.spent, l.number INTO newest FROM ledger_levelpayment l
     WHERE l.level_id = p_level ORDER BY l.at DESC, l.number DESC LIMIT 1;
    IF NOT FOUND THEN RETURN ARRAY[0, 0]; END IF;
    SELECT l.spent, l.number INTO before FROM ledger_levelpayment l
     WHERE l.level_id = p_level AND l.at <= p_since ORDER BY l.at DESC, l.number DESC LIMIT 1;
    SELECT COALESCE(sum(l.amount), 0) AS amount, count(*) AS payments INTO returned FROM ledger_levelpayment l
     WHERE l.level_id = p_level AND l.is_returned AND l.at > p_since;
    SELECT COALESCE(sum(l.amount), 0) AS amount, count(*) AS payments INTO carried FROM ledger_levelpayment l
     WHERE l.level_id = p_level AND l.carried_until > p_since AND l.at <= p_since AND NOT l.is_returned;
    RETURN ARRAY[newest.spent - COALESCE(before.spent, 0) - returned.amount + carried.amount,
                 newest.number - COALESCE(before.number, 0) - returned.payments + carried.payments];
END $$;

-- The same of what they have paid to one payee.
CREATE OR REPLACE FUNCTION ledger_payee_below_since(p_level text, p_payee text, p_since timestamptz) RETURNS numeric[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    newest record;
    before record;
    returned record;
    carried record;
BEGIN
    SELECT l.payee_spent, l.payee_number INTO newest FROM ledger_levelpayment l
     WHERE l.level_id = p_level AND l.payee = p_payee ORDER BY l.at DESC, l.number DESC LIMIT 1;
    IF NOT FOUND THEN RETURN ARRAY[0, 0]; END IF;
    SELECT l.payee_spent, l.payee_number INTO before FROM ledger_levelpayment l
     WHERE l.level_id = p_level AND l.payee = p_payee AND l.at <= p_since ORDER BY l.at DESC, l.number DESC LIMIT 1;
    SELECT COALESCE(sum(l.amount), 0) AS amount, count(*) AS payments INTO returned FROM ledger_levelpayment l
     WHERE l.level_id = p_level AND l.is_returned AND l.at > p_since AND l.payee = p_payee;
    SELECT COALESCE(sum(l.amount), 0) AS amount, count(*) AS payments INTO carried FROM ledger_levelpayment l
     WHERE l.level_id = p_level AND l.carried_until > p_since AND l.at <= p_since AND NOT l.is_returned AND l.payee = p_payee;
    RETURN ARRAY[newest.payee_spent - COALESCE(before.payee_spent, 0) - returned.amount + carried.amount,
                 newest.payee_number - COALESCE(before.payee_number, 0) - returned.payments + carried.payments];
END $$;

-- What an agent and all below it have spent in a day and in a week; and where the policy has optional limits, in an hour and in 30 days:
-- null where none of them needs it. A table, as in windows.sql.
CREATE OR REPLACE FUNCTION ledger_spent(p_agent policy_agent, p_at timestamptz, p_policy policy_policyrevision)
RETURNS TABLE (spent numeric[]) LANGUAGE sql STABLE ROWS 1 AS $$
    SELECT ARRAY(
        SELECT CASE WHEN since IS NOT NULL THEN
                   w.spent + CASE WHEN (p_agent).ancestors IS NULL THEN 0 ELSE (ledger_below_since((p_agent).id, since))[1] END END
          FROM unnest(ARRAY[p_at - interval '24 hours', p_at - interval '7 days'] || CASE WHEN (p_policy).more_json <> '{}' THEN ARRAY[
                   CASE WHEN (p_policy).more_json::jsonb ? 'hourlyLimit' THEN p_at - interval '1 hour' END,
                   CASE WHEN (p_policy).more_json::jsonb ? 'monthlyLimit' THEN p_at - interval '30 days' END] END) AS since,
               LATERAL ledger_spent_window((p_agent).id, (p_agent).spent_total, since) w)
$$;

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

-- What is given back leaves the windows of those above, too. Rows that are counted anew meanwhile (`ledger_level_anew`) are deleted while
-- a statement waits for them: the next one sees those that are there instead.
CREATE OR REPLACE FUNCTION ledger_level_return() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    LOOP
        UPDATE ledger_levelpayment SET is_returned = true WHERE payment_id = NEW.payment_id AND NOT is_returned;
        EXIT WHEN NOT EXISTS (SELECT FROM ledger_levelpayment WHERE payment_id = NEW.payment_id AND NOT is_returned);
    END LOOP;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER level_return AFTER INSERT ON ledger_balancemovement
    FOR EACH ROW WHEN (NEW.kind = 'return') EXECUTE FUNCTION ledger_level_return();

-- The agents at which payments of one agent are counted in the future: wherever it has been moved to since.
CREATE OR REPLACE FUNCTION ledger_levels_ahead(p_agent text, p_at timestamptz) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT COALESCE(array_agg(DISTINCT l.level_id::text), '{}')
      FROM ledger_logentry e JOIN ledger_levelpayment l ON l.payment_id = e.payment_id
     WHERE e.agent_id = p_agent AND e.result = 'approved' AND e.created_at > p_at AND l.at > p_at
$$;

-- What was in the future when the clock of an agent was repaired counts as paid at that moment by those above it, and in every window until
-- the moment that it is dated with has left that, too. So does what others have paid there in the future, so that the order of rows
-- stays; these are refused until they are repaired, too.
CREATE OR REPLACE FUNCTION ledger_repair_levels() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ledger_levelpayment SET at = NEW.repaired_at, carried_until = COALESCE(carried_until, at)
     WHERE at > NEW.repaired_at AND level_id = ANY (ledger_levels_ahead(NEW.agent_id, NEW.repaired_at));
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
    FOR EACH ROW WHEN (OLD.ancestors IS DISTINCT FROM NEW.ancestors) EXECUTE FUNCTION ledger_move_holds();

-- What waits for a person's approval of an agent and of all below it, but one payment (null: all): the amount and the number, the same of
-- what is for one payee, and the same of what is the agent's own. Null: nothing.
CREATE OR REPLACE FUNCTION ledger_held(p_agent policy_agent, p_payee text, p_but text) RETURNS numeric[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    held numeric[];
BEGIN
    SELECT ARRAY[sum(h.amount), count(*), COALESCE(sum(h.amount) FILTER (WHERE h.service = p_payee), 0),
                 count(*) FILTER (WHERE h.service = p_payee), COALESCE(sum(h.amount) FILTER (WHERE h.agent_id = p_agent.id), 0),
                 count(*) FILTER (WHERE h.agent_id = p_agent.id)]
      INTO held
      FROM (SELECT o.id, o.agent_id, o.service, o.amount FROM ledger_hold o WHERE o.agent_id = p_agent.id AND o.ended_at IS NULL
             UNION ALL
            SELECT b.id, b.agent_id, b.service, b.amount FROM ledger_hold b
             WHERE p_agent.ancestors IS NOT NULL AND b.ended_at IS NULL AND b.ancestors @> ARRAY[p_agent.id::varchar]) h
     WHERE h.id IS DISTINCT FROM p_but HAVING count(*) > 0;
    RETURN held;
END $$;

-- Counts all payments below an agent anew, from the whole log; returns their number. What was in the future when the clock of its payer
-- was repaired counts from then on, and as in ledger_repair_levels. The caller holds the locks of the agent and of all above it.
CREATE OR REPLACE FUNCTION ledger_level_anew(p_level text) RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    counted bigint;
BEGIN
    PERFORM set_config('allowance.recounting', 'on', true);
    DELETE FROM ledger_levelpayment WHERE level_id = p_level;
    PERFORM set_config('allowance.recounting', 'off', true);
    WITH paid AS (
        SELECT e.id, e.payment_id, e.service AS payee, e.amount::numeric AS amount, e.created_at, least(e.created_at, (
                   SELECT min(r.repaired_at) FROM ledger_clockrepair r
                    WHERE r.agent_id = e.agent_id AND r.number > COALESCE(e.clock_repairs, 0))) AS at,
               EXISTS (SELECT FROM ledger_balancemovement m WHERE m.payment_id = e.payment_id AND m.kind = 'return') AS is_returned
          FROM ledger_logentry e
         WHERE e.result = 'approved' AND CASE WHEN strpos(e.explanation_json, '"levels":') > 0 THEN
                   EXISTS (SELECT FROM json_array_elements(e.explanation_json::json -> 'levels') l WHERE l ->> 'agentId' = p_level) END
    )
    INSERT INTO ledger_levelpayment (level_id, number, payment_id, payee, at, amount, spent, payee_number, payee_spent, is_returned,
                                     carried_until)
    SELECT p_level, row_number() OVER w, payment_id, payee, at, amount, sum(amount) OVER w,
           row_number() OVER to_payee, sum(amount) OVER to_payee, is_returned, CASE WHEN at < created_at THEN created_at END
      FROM paid
    WINDOW w AS (ORDER BY at, id), to_payee AS (PARTITION BY payee ORDER BY at, id);
    GET DIAGNOSTICS counted = ROW_COUNT;
    RETURN counted;
END $$;
