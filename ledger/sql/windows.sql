-- Rolling windows in O(log n): the agent's total now, less the total at the window's start, less what failed since.

-- Spend of an agent in (p_since, now]. p_total is the agent's running total now.
CREATE OR REPLACE FUNCTION ledger_spent_since(p_agent text, p_total numeric, p_since timestamptz) RETURNS numeric
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT p_total
         - COALESCE((SELECT spent_total FROM ledger_logentry
                      WHERE agent_id = p_agent AND created_at <= p_since
                      ORDER BY created_at DESC, id DESC LIMIT 1), 0)
         - COALESCE((SELECT sum(amount) FROM ledger_balancemovement
                      WHERE agent_id = p_agent AND kind = 'return' AND spent_at > p_since), 0)
$$;

-- The first millisecond at which the window's spend is down to p_headroom if nothing more is paid. By bisection:
-- the spend since a moment only falls as the moment advances.
CREATE OR REPLACE FUNCTION ledger_fits_at(
    p_agent text, p_total numeric, p_now timestamptz, p_window interval, p_headroom numeric
) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    too_early timestamptz := p_now - p_window;  -- as a window's start: too much is spent since
    fits timestamptz := p_now;                  -- nothing is spent since
    middle timestamptz;
BEGIN
    WHILE fits - too_early > interval '1 millisecond' LOOP
        middle := date_trunc('milliseconds', too_early + (fits - too_early) / 2);
        IF ledger_spent_since(p_agent, p_total, middle) > p_headroom THEN
            too_early := middle;
        ELSE
            fits := middle;
        END IF;
    END LOOP;
    RETURN fits + p_window;
END $$;
