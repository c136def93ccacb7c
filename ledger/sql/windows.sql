-- Rolling windows in O(log n): the agent's total now, less the total at the window's start, less what failed since.

-- The same over an agent's clock repairs (see ClockRepair). Between two of them the order of time is that of the chain, so
-- that each such stretch is a log of its own. What was in the future when it ended counts as a whole until it is past.
CREATE OR REPLACE FUNCTION ledger_decided_since(p_agent text, p_total numeric, p_since timestamptz) RETURNS numeric
LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
DECLARE
    repair ledger_clockrepair%ROWTYPE;
    began_at timestamptz := '-infinity';  -- of the stretch
    total_before numeric := 0;            -- what was spent before it
    later numeric := 0;                   -- what was spent since p_since in the stretches that ended
    number int := 0;
BEGIN
    FOR repair IN SELECT * FROM ledger_clockrepair r WHERE r.agent_id = p_agent ORDER BY r.number LOOP
        IF p_since < repair.repaired_at THEN
            later := later + repair.spent_total
                   - ledger_total_at(p_agent, number, began_at, total_before, p_since);
        ELSIF p_since < repair.head_at THEN
            later := later + repair.spent_total - repair.spent_before;
        END IF;
        number := repair.number;
        began_at := repair.repaired_at;
        total_before := repair.spent_total;
    END LOOP;
    RETURN later + p_total - ledger_total_at(p_agent, number, began_at, total_before, p_since);
END $$;

-- The running total at a moment by the entries of one stretch.
CREATE OR REPLACE FUNCTION ledger_total_at(
    p_agent text, p_number int, p_began_at timestamptz, p_before numeric, p_at timestamptz
) RETURNS numeric LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT COALESCE((SELECT e.spent_total FROM ledger_logentry e
                      WHERE e.agent_id = p_agent AND e.created_at BETWEEN p_began_at AND p_at
                        AND COALESCE(e.clock_repairs, 0) = p_number
                      ORDER BY e.created_at DESC, e.id DESC LIMIT 1), p_before)
$$;

-- What an agent has spent in (p_since, now]. p_total is the agent's running total now.
--
-- A table of one row, because the planner puts the look-ups of such a function in the place of its call. A function that returns a
-- value is called, and to begin and end its statement takes ten times as long as a look-up.
CREATE OR REPLACE FUNCTION ledger_spent_window(p_agent text, p_total numeric, p_since timestamptz) RETURNS TABLE (spent numeric)
LANGUAGE sql STABLE PARALLEL SAFE ROWS 1 AS $$
    SELECT CASE WHEN EXISTS (SELECT FROM ledger_clockrepair WHERE agent_id = p_agent)
           THEN ledger_decided_since(p_agent, p_total, p_since)
           ELSE p_total - COALESCE((SELECT spent_total FROM ledger_logentry
                                     WHERE agent_id = p_agent AND created_at <= p_since
                                     ORDER BY created_at DESC, id DESC LIMIT 1), 0) END
         - COALESCE((SELECT sum(amount) FROM ledger_balancemovement
                      WHERE agent_id = p_agent AND kind = 'return' AND spent_at > p_since), 0)
$$;

-- The same as a value.
CREATE OR REPLACE FUNCTION ledger_spent_since(p_agent text, p_total numeric, p_since timestamptz) RETURNS numeric
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT spent FROM ledger_spent_window(p_agent, p_total, p_since)
$$;

-- The first millisecond at which a window holds p_headroom at most of what is measured, if nothing more is paid: of what is spent, of the
-- number of payments, or of what is spent at a payee, each with what all below the agent have paid. p_total: all that the agent itself
-- has until now. By bisection: what a window holds only falls as it advances.
CREATE OR REPLACE FUNCTION ledger_fits_at_3(
    p_agent text, p_measure text, p_payee text, p_total numeric, p_now timestamptz, p_window interval, p_headroom numeric
) RETURNS timestamptz LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $$
DECLARE
    too_early timestamptz := p_now - p_window;  -- as a window's start: it holds too much
    fits timestamptz;                           -- it holds nothing
    middle timestamptz;
    held numeric;
    is_in_tree boolean := EXISTS (SELECT FROM policy_agent a WHERE a.id = p_agent AND a.ancestors IS NOT NULL);
BEGIN
    SELECT greatest(p_now, max(r.head_at)) INTO fits FROM ledger_clockrepair r WHERE r.agent_id = p_agent;
    IF is_in_tree THEN
        SELECT greatest(fits, max(l.carried_until)) INTO fits FROM ledger_levelpayment l
         WHERE l.level_id = p_agent AND l.carried_until IS NOT NULL;
    END IF;
    WHILE fits - too_early > interval '1 millisecond' LOOP
        middle := date_trunc('milliseconds', too_early + (fits - too_early) / 2);
        IF p_measure = 'spent' THEN
            held := ledger_spent_since(p_agent, p_total, middle);
        ELSIF p_measure = 'payments' THEN
            held := (SELECT payments FROM ledger_payments_window(p_agent, p_total, middle));
        ELSE
            held := (SELECT spent FROM ledger_payee_window(p_agent, p_payee, p_total, middle));
        END IF;
        IF is_in_tree THEN
            held := held + CASE p_measure WHEN 'spent' THEN (ledger_below_since(p_agent, middle))[1]
                                          WHEN 'payments' THEN (ledger_below_since(p_agent, middle))[2]
                                          WHEN 'payee_spent' THEN (ledger_payee_below_since(p_agent, p_payee, middle))[1] END;
        END IF;
        IF held > p_headroom THEN
            too_early := middle;
        ELSE
            fits := middle;
        END IF;
    END LOOP;
    RETURN fits + p_window;
END $$;

-- Release 0.3 calls this one. It goes with the release after this one.
CREATE OR REPLACE FUNCTION ledger_fits_at(
    p_agent text, p_total numeric, p_now timestamptz, p_window interval, p_headroom numeric
) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT ledger_fits_at_3(p_agent, 'spent', NULL, p_total, p_now, p_window, p_headroom)
$$;
