-- The budgets of some agents, as `GET /v1/agents/:id/budget` and the console show them. What waits for a person's approval counts as
-- spent, and `held` is how much that is, how many payments, and how much of it is the agent's own. All but the balance is with what those below the agent pay.
--
-- A function, because its plan is kept by the session, whoever is behind a pooler: to plan this takes five times as long as
-- to run it.
CREATE OR REPLACE FUNCTION ledger_budgets_4(p_agents text[]) RETURNS TABLE (
    agent_id text, status text, asset text, balance numeric, spent_today numeric, spent_this_week numeric,
    daily_limit numeric, weekly_limit numeric, max_per_payment numeric, policy_revision int, more_json text, counted numeric[], held numeric[],
    ancestors text[], paid_this_week numeric
) LANGUAGE plpgsql STABLE
SET enable_seqscan = off  -- as in payments/deciding/sql/lock_and_read.sql
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT a.id::text, a.status::text, a.asset::text, greatest(a.balance - hold.own, 0),
           with_below.spent[1] + hold.amount, with_below.spent[2] + hold.amount,
           p.daily_limit, p.weekly_limit, p.max_per_payment, p.number,
           p.more_json, ledger_counted_by(p, with_below.spent, tallied.counted),
           ARRAY[hold.amount, hold.payments, hold.own], a.ancestors::text[], own.spent
      FROM policy_agent a
      JOIN policy_policyrevision p ON p.agent_id = a.id AND p.number = a.policy_revision
           -- Never earlier than the agent's last entry: the ledger's clock does not step back.
     CROSS JOIN LATERAL (SELECT greatest(statement_timestamp(), a.last_entry_at) AS now) clock
     CROSS JOIN LATERAL ledger_spent_window(a.id, a.spent_total, clock.now - interval '7 days') own
     CROSS JOIN LATERAL ledger_spent(a, clock.now, p) with_below
      LEFT JOIN LATERAL ledger_tallied(ARRAY[a.id], ARRAY[NULL], ARRAY[clock.now]) tallied ON p.counts_payments
     CROSS JOIN LATERAL (SELECT ledger_held(a, NULL, NULL) AS held) waiting
     CROSS JOIN LATERAL (SELECT COALESCE(held[1], 0) AS amount, COALESCE(held[2], 0) AS payments, COALESCE(held[5], 0) AS own) hold
     WHERE a.id = ANY(p_agents);
END $$;

-- Release 0.3 calls this one. It goes with the release after this one.
CREATE OR REPLACE FUNCTION ledger_budgets(p_agents text[]) RETURNS TABLE (
    agent_id text, status text, asset text, balance numeric, spent_today numeric, spent_this_week numeric,
    daily_limit numeric, weekly_limit numeric, max_per_payment numeric, policy_revision int
) LANGUAGE sql STABLE AS $$
    SELECT agent_id, status, asset, balance, spent_today, spent_this_week, daily_limit, weekly_limit, max_per_payment, policy_revision
      FROM ledger_budgets_4(p_agents);
$$;
