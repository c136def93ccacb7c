-- What is known of agents before a batch of payments is decided, whoever they pay.

-- Returns since when an agent has had the highest allowed number of refusals in a minute, as of a moment: first as it is, then
-- if one more was refused at that moment, and so on, for as many requests as a batch has. Null: it has not.
CREATE OR REPLACE FUNCTION payments_refusing_since(p_agent text, p_at timestamptz, p_most int, p_requests int)
RETURNS timestamptz[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    newest timestamptz[] := ARRAY(
        SELECT e.created_at FROM ledger_logentry e
         WHERE e.agent_id = p_agent AND e.result = 'blocked'
           AND (e.idempotency_key IS NOT NULL OR e.refused_request IS NOT NULL)  -- not the end of a hold, which nobody asked for
           AND e.created_at > p_at - interval '1 minute' AND e.created_at <= p_at
         ORDER BY e.created_at DESC, e.id DESC LIMIT p_most);
    since timestamptz[] := array_fill(NULL::timestamptz, ARRAY[p_requests]);
BEGIN
    FOR more IN greatest(p_most - cardinality(newest), 0) .. p_requests - 1 LOOP
        since[more + 1] := CASE WHEN more < p_most THEN newest[p_most - more] ELSE p_at END;
    END LOOP;
    RETURN since;
END $$;

-- Returns for each of some agents a moment that its decisions are not before: that of the last entry of its log, and of what it counts of
-- others; and the same of others in its tree. So there is one moment for all of a tree, and what is paid in it is counted in the order
-- of time. Who is so far ahead that nothing is decided (LARGEST_SKEW in foundation/kernel/times.py) takes along only those below.
CREATE OR REPLACE FUNCTION payments_come_to(p_agents text[], p_clock_at timestamptz) RETURNS timestamptz[] LANGUAGE plpgsql STABLE
SET enable_seqscan = off
AS $$
BEGIN
    RETURN ARRAY(
        WITH come AS MATERIALIZED (
            SELECT l.place, l.id, a.ancestors, greatest(a.last_entry_at, (
                       SELECT p.at FROM ledger_levelpayment p WHERE p.level_id = l.id ORDER BY p.at DESC, p.number DESC LIMIT 1)) AS come_to
              FROM unnest(p_agents) WITH ORDINALITY AS l(id, place)
              LEFT JOIN LATERAL (SELECT o.ancestors, o.last_entry_at FROM policy_agent o WHERE o.id = l.id LIMIT 1) a ON true
        )
        SELECT greatest(c.come_to, max(c.come_to) FILTER (WHERE c.come_to <= p_clock_at + interval '5 seconds')
                                   OVER (PARTITION BY COALESCE(c.ancestors[1], c.id)),
                        (SELECT max(o.come_to) FROM come o WHERE o.id = ANY (c.ancestors)))
          FROM come c ORDER BY c.place);
END $$;

-- Returns what is known of some agents, each as of its moment: that of the clock, or of its last entry, or of `p_come_to`, whichever is
-- the latest. The planner puts it in the place of its call, as `ledger_spent_window`.
CREATE OR REPLACE FUNCTION payments_facts_of(p_agents text[], p_come_to timestamptz[], p_clock_at timestamptz)
RETURNS TABLE (id text, agent policy_agent, decided_at timestamptz, policy policy_policyrevision, clock_repairs int, spent numeric[])
LANGUAGE sql STABLE AS $$
    -- Each row is looked up by itself, by its key: LIMIT keeps the planner from joining tables as a whole, which would be
    -- cheaper for the nearly empty tables that a plan may have been made for.
    SELECT l.id, found.agent, d.decided_at, ruled.policy,
           (SELECT NULLIF(count(*), 0)::int FROM ledger_clockrepair r WHERE r.agent_id = l.id), s.spent
      FROM unnest(p_agents, p_come_to) AS l(id, come_to),
           LATERAL (SELECT a AS agent FROM policy_agent a WHERE a.id = l.id LIMIT 1) found,
           LATERAL (SELECT greatest(p_clock_at, (found.agent).last_entry_at, l.come_to) AS decided_at) d,
           LATERAL (SELECT p AS policy FROM policy_policyrevision p
                     WHERE p.agent_id = l.id AND p.number = (found.agent).policy_revision LIMIT 1) ruled,
           LATERAL ledger_spent(found.agent, d.decided_at, ruled.policy) s
$$;
