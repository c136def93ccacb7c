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

-- The first half of a batch of payments: lock the agents and all above them, then read all facts that the decisions depend on.
--
-- A volatile function, so that each statement in it takes a fresh snapshot after waiting for the locks. A single plain
-- statement that locks and sums would sum the rows from before its wait.
--
-- Returns a row for each request, in no certain order; `place` counts the requests from 1. `level` is 0 in it. Of a request whose agent
-- is below others there is a row for each of these, too, with what it has to compare: 1 is the parent, 2 that one's. `api_key` is the key with a digest
-- of `p_callers`, if it is in force. An unknown agent has no row of the agent, and a known idempotency key only its
-- `earlier_entry_id`. What somebody else holds, an agent or the right to pay a service, is waited for `p_wait_ms` at most. If
-- that is null, the requests that need it come back with the `busy_root` of their agent's tree, without any facts; so do those on a chain of which somebody
-- else holds all relayers.
--
-- `p_held` has for each request the id of the payment if that was held until now, for a person's approval; null otherwise. It is decided anew
-- then, whatever its key says. `held` is what waits for an approval apart from that, as `ledger_held` returns it.
--
-- Without `p_locks` it reads the same facts, locks nothing and waits for nobody: for an evaluation, after which nothing is
-- recorded.
--
-- Rows are returned whole; `payments/deciding/known.py` says which of their columns are selected. So a column of a row is added
-- there alone. When the columns of the function change, increase the number in its name, and keep the old function: until
-- a deployment has replaced the last process of the earlier version, that process calls it.

CREATE OR REPLACE FUNCTION payments_lock_and_read_11(
    p_agents text[], p_keys text[], p_services text[], p_digests text[],
    p_callers bytea[], p_held text[], p_wait_ms int, p_now timestamptz, p_most_refusals int, p_locks boolean,
    OUT place int, OUT level int, OUT api_key policy_apikey, OUT busy_root text, OUT earlier_entry_id text,
    OUT decided_at timestamptz, OUT clock_at timestamptz, OUT clock_repairs int,
    OUT spent_today numeric, OUT spent_this_week numeric, OUT counted numeric[], OUT payee_counted numeric[],
    OUT held numeric[],
    OUT refused_entry_id text, OUT refusing_since timestamptz[],
    OUT is_signing boolean, OUT key_hash bytea, OUT is_key_used boolean, OUT relayer_in_need text, OUT relayer_room int,
    OUT agent policy_agent, OUT policy policy_policyrevision,
    OUT payee services_service, OUT payee_state payments_payeestate,
    OUT relayer payments_relayer, OUT chain payments_chainstate
) RETURNS SETOF record LANGUAGE plpgsql VOLATILE
SET lock_timeout = '5s'
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off  -- a plan made while the log was nearly empty must not be kept when it is long
AS $$
#variable_conflict use_column
DECLARE
    v_wanted text[];         -- agents, with all above them
    v_locked text[];
    v_has_trees boolean;
    v_shared text[];         -- services
    v_is_signer_shared boolean := true;
    v_clock_at timestamptz;
BEGIN
    -- In one order, so that two batches that wait do not wait for each other: the agents by their paths, a parent before its children, as
    -- policy/parents.py locks them. Payments share the locks of the signer and of the
    -- service; an operation that takes either out of service holds its lock alone. Once it has returned, no payment that read
    -- the old state is still in flight. See foundation/database.py.
    v_wanted := p_agents;
    v_has_trees := EXISTS (SELECT FROM policy_agent a WHERE a.id = ANY (p_agents) AND a.ancestors <> '{}');
    IF v_has_trees THEN
        v_wanted := ARRAY(SELECT DISTINCT w.id FROM policy_agent a, unnest(a.ancestors || a.id) AS w(id) WHERE a.id = ANY (p_agents));
    END IF;
    IF NOT p_locks THEN
        v_locked := v_wanted;
        v_shared := p_services;
    ELSIF p_wait_ms IS NOT NULL THEN
        PERFORM set_config('lock_timeout', p_wait_ms::text, true);  -- until the function returns
        v_locked := ARRAY(
            SELECT a.id FROM policy_agent a WHERE a.id = ANY (v_wanted)
             ORDER BY COALESCE(a.ancestors, '{}') || a.id FOR NO KEY UPDATE);
        PERFORM pg_advisory_xact_lock_shared(1, hashtext(''));
        PERFORM pg_advisory_xact_lock_shared(2, hashtext(s)) FROM unnest(p_services) AS s;
        v_shared := p_services;
        PERFORM set_config('lock_timeout', '5s', true);
    ELSE
        v_locked := ARRAY(
            SELECT a.id FROM policy_agent a WHERE a.id = ANY (v_wanted)
             ORDER BY COALESCE(a.ancestors, '{}') || a.id FOR NO KEY UPDATE SKIP LOCKED);
        v_is_signer_shared := pg_try_advisory_xact_lock_shared(1, hashtext(''));
        v_shared := ARRAY(SELECT s FROM unnest(p_services) AS s WHERE pg_try_advisory_xact_lock_shared(2, hashtext(s)));
    END IF;

    -- The clock is read under the locks and never steps back, so entries of one agent are in order of commit. The caller
    -- decides how far the clock may be behind the last entry.
    v_clock_at := date_trunc('milliseconds', COALESCE(p_now, clock_timestamp()));

    -- Each row is looked up by itself, by its key: LIMIT keeps the planner from joining tables as a whole, which would be
    -- cheaper for the nearly empty tables that a plan may have been made for.
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT l.id, (SELECT a FROM policy_agent a WHERE a.id = l.id) AS agent FROM unnest(v_locked) AS l(id)
    ), come AS (
        -- How far the log of each has come, with what it counts of others.
        SELECT f.*, greatest((f.agent).last_entry_at, CASE WHEN (f.agent).ancestors IS NOT NULL THEN (
                   SELECT p.at FROM ledger_levelpayment p WHERE p.level_id = f.id ORDER BY p.at DESC, p.number DESC LIMIT 1) END) AS come_to
          FROM found f
    ), dated AS (
        -- One moment for all of a tree, so that what is paid in it is counted in the order of time. Who is so far ahead that nothing is
        -- decided (LARGEST_SKEW in foundation/kernel/times.py) does not take along others, but those below.
        SELECT c.id, c.agent, greatest(v_clock_at, c.come_to,
                   max(c.come_to) FILTER (WHERE c.come_to <= v_clock_at + interval '5 seconds')
                   OVER (PARTITION BY COALESCE((c.agent).ancestors[1], c.id)),
                   CASE WHEN (c.agent).ancestors <> '{}' THEN (
                       SELECT max(o.come_to) FROM come o WHERE o.id = ANY ((c.agent).ancestors)) END) AS decided_at
          FROM come c
    ), agents AS MATERIALIZED (
        SELECT d.id, agent, d.decided_at, policy,
               COALESCE((agent).ancestors::text[] <@ v_locked, true) AS is_whole,
               CASE WHEN (policy).more_json <> '{}' THEN ledger_counted(agent, d.decided_at, policy) END AS counted, (
                SELECT NULLIF(count(*), 0)::int FROM ledger_clockrepair r WHERE r.agent_id = d.id
               ) AS clock_repairs,
               ledger_spent_since(d.id, (agent).spent_total, d.decided_at - interval '24 hours')
               + CASE WHEN (agent).ancestors IS NULL THEN 0
                      ELSE (ledger_below_since(d.id, d.decided_at - interval '24 hours'))[1] END AS spent_today,
               ledger_spent_since(d.id, (agent).spent_total, d.decided_at - interval '7 days')
               + CASE WHEN (agent).ancestors IS NULL THEN 0
                      ELSE (ledger_below_since(d.id, d.decided_at - interval '7 days'))[1] END AS spent_this_week,
               CASE WHEN d.id = ANY (p_agents)
                    THEN payments_refusing_since(d.id, d.decided_at, p_most_refusals, cardinality(p_agents)) END AS refusing_since
          FROM dated d,
               LATERAL (SELECT p AS policy FROM policy_policyrevision p
                         WHERE p.agent_id = d.id AND p.number = (d.agent).policy_revision LIMIT 1) ruled
    ), asked AS MATERIALIZED (
        SELECT q.*, g.agent, g.decided_at, g.policy, g.is_whole, g.counted, g.clock_repairs, g.spent_today, g.spent_this_week,
               g.refusing_since, (SELECT s FROM services_service s WHERE s.id = q.service) AS payee,
               (SELECT e.id FROM ledger_logentry e WHERE e.agent_id = q.agent_id AND e.idempotency_key = q.key AND q.held_id IS NULL
               ) AS earlier_entry_id
          FROM unnest(p_agents, p_keys, p_services, p_digests, p_callers, p_held)
               WITH ORDINALITY AS q(agent_id, key, service, digest, caller, held_id, place)
          LEFT JOIN agents g ON g.id = q.agent_id
    ), judged AS MATERIALIZED (
        SELECT a.*,
               -- An earlier decision waits for its agent, too: its lock makes the answer wait until a standby has the decision.
               CASE WHEN (a.agent).id IS NULL THEN EXISTS (SELECT FROM policy_agent o WHERE o.id = a.agent_id)
                    WHEN NOT is_whole THEN true  -- it was moved while it was waited for
                    ELSE earlier_entry_id IS NULL AND NOT (v_is_signer_shared AND a.service = ANY (v_shared))
               END AS is_busy,
               CASE WHEN earlier_entry_id IS NULL AND (agent).status = 'active' AND (payee).status = 'approved'
                    THEN (payee).chain END AS pays_on
          FROM asked a
    ), relayers AS MATERIALIZED (
        SELECT c.pays_on, taken.*
          FROM (SELECT pays_on, count(*)::int AS payments FROM judged
                 WHERE pays_on IS NOT NULL AND NOT is_busy GROUP BY pays_on ORDER BY pays_on) c,
               LATERAL payments_take_relayer(c.pays_on, c.payments, p_wait_ms IS NOT NULL) taken
         WHERE p_locks
         UNION ALL
        SELECT c.pays_on, seen.*
          FROM (SELECT DISTINCT pays_on FROM judged WHERE pays_on IS NOT NULL) c, LATERAL payments_see_relayer(c.pays_on) seen
         WHERE NOT p_locks
    )
    SELECT a.place::int, 0,
           (SELECT k FROM policy_apikey k
             WHERE k.digest = a.caller AND k.revoked_at IS NULL
               AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())),
           CASE WHEN a.is_busy OR r.is_held
                THEN (SELECT COALESCE(o.ancestors[1], o.id)::text FROM policy_agent o WHERE o.id = a.agent_id) END, a.earlier_entry_id::text,
           a.decided_at, v_clock_at, a.clock_repairs, a.spent_today, a.spent_this_week, a.counted,
           CASE WHEN (a.policy).counts_payments THEN ledger_payee_counted(a.agent, a.service, a.decided_at, a.policy) END,
           ledger_held(a.agent, a.service, a.held_id),
           -- The newest 503 for the same request.
           (SELECT e.id::text FROM ledger_logentry e
             WHERE e.agent_id = a.agent_id AND e.refused_request = a.digest AND e.created_at <= a.decided_at
             ORDER BY e.created_at DESC LIMIT 1),
           a.refusing_since,
           -- No row: the signer was never put in service.
           COALESCE((SELECT s.is_signing FROM policy_signerswitch s WHERE s.id = 1), false),
           k.key_hash,
           EXISTS (SELECT FROM payments_outflow o
                    WHERE o.chain = a.pays_on AND o.escrow_id IN ('0x' || encode(k.key_hash, 'hex'), a.held_id)),
           r.in_need, r.room, a.agent, a.policy, a.payee,
           (SELECT y FROM payments_payeestate y WHERE y.chain = a.pays_on AND y.address = (a.payee).address),
           r.relayer,
           (SELECT c FROM payments_chainstate c WHERE c.chain = a.pays_on)
      FROM judged a
      LEFT JOIN relayers r ON r.pays_on = a.pays_on,
           -- As payments/deciding/escrow_ids.py: the id of this key in the escrow, and whether the escrow used it without us.
           LATERAL (SELECT CASE WHEN a.pays_on IS NOT NULL THEN (
                        SELECT sha256(i.salt || sha256(convert_to(a.agent_id, 'UTF8')) || sha256(convert_to(a.key, 'UTF8')))
                          FROM payments_installation i WHERE i.id = 1) END AS key_hash) k
     UNION ALL
    SELECT a.place::int, cardinality((a.agent).ancestors) - array_position((a.agent).ancestors, l.id) + 1,
           NULL::policy_apikey, NULL::text, NULL::text, l.decided_at, v_clock_at, l.clock_repairs, l.spent_today, l.spent_this_week, l.counted,
           CASE WHEN (l.policy).counts_payments THEN ledger_payee_counted(l.agent, a.service, l.decided_at, l.policy) END,
           ledger_held(l.agent, a.service, a.held_id),
           NULL, NULL::timestamptz[], NULL::boolean, NULL::bytea, NULL::boolean, NULL, NULL::int, l.agent, l.policy,
           NULL::services_service, NULL::payments_payeestate, NULL::payments_relayer, NULL::payments_chainstate
      FROM judged a
      JOIN agents l ON l.id = ANY ((a.agent).ancestors)
     WHERE v_has_trees AND NOT a.is_busy AND a.earlier_entry_id IS NULL;
    IF p_wait_ms IS NOT NULL AND EXISTS (
        SELECT FROM policy_agent a WHERE a.id = ANY (p_agents) AND NOT a.ancestors::text[] <@ v_locked
    ) THEN
        RAISE EXCEPTION 'An agent was moved while it was waited for.' USING ERRCODE = 'lock_not_available';
    END IF;
END $$;
