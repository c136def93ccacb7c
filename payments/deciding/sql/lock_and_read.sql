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
    v_has_more boolean;      -- an agent is in a tree, or has what waits for a person's approval
    v_come_to timestamptz[]; -- of each of v_locked; null: none is in a tree
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

    -- What few agents have costs the others one look-up.
    v_has_more := EXISTS (
        SELECT FROM policy_agent a
         WHERE a.id = ANY (v_locked)
           AND (a.ancestors IS NOT NULL OR EXISTS (SELECT FROM ledger_hold h WHERE h.agent_id = a.id AND h.ended_at IS NULL)));
    IF v_has_more THEN v_come_to := payments_come_to(v_locked, v_clock_at); END IF;

    RETURN QUERY
    WITH agents AS MATERIALIZED (
        SELECT f.*, COALESCE((f.agent).ancestors::text[] <@ v_locked, true) AS is_whole,
               payments_refusing_since(f.id, f.decided_at, p_most_refusals, cardinality(p_agents)) AS refusing_since
          FROM payments_facts_of(v_locked, v_come_to, v_clock_at) f WHERE f.id = ANY (p_agents)
    ), asked AS MATERIALIZED (
        SELECT q.*, g.agent, g.decided_at, g.policy, g.is_whole, g.clock_repairs, g.spent,
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
    ), tallied AS MATERIALIZED (
        -- Read only if a policy counts payments: then once for all of the batch.
        SELECT a.places[t.place] AS place, t.counted, t.payee_counted
          FROM (SELECT array_agg(place) AS places, array_agg(agent_id) AS agents, array_agg(service) AS payees,
                       array_agg(decided_at) AS at FROM judged WHERE (policy).counts_payments) a,
               LATERAL ledger_tallied(a.agents, a.payees, a.at) t
    ), relayers AS MATERIALIZED (
        SELECT c.pays_on, taken.*
          FROM (SELECT pays_on, count(*)::int AS payments FROM judged
                 WHERE pays_on IS NOT NULL AND NOT is_busy GROUP BY pays_on ORDER BY pays_on) c,
               LATERAL payments_choose_relayer(c.pays_on, c.payments, p_wait_ms IS NOT NULL, p_locks) taken
    )
    SELECT a.place::int, 0,
           (SELECT k FROM policy_apikey k
             WHERE k.digest = a.caller AND k.revoked_at IS NULL
               AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())),
           CASE WHEN a.is_busy OR r.is_held
                THEN (SELECT COALESCE(o.ancestors[1], o.id)::text FROM policy_agent o WHERE o.id = a.agent_id) END, a.earlier_entry_id::text,
           a.decided_at, v_clock_at, a.clock_repairs, a.spent[1], a.spent[2],
           ledger_counted_by(a.policy, a.spent,
                          CASE WHEN (a.policy).counts_payments THEN (SELECT t.counted FROM tallied t WHERE t.place = a.place) END),
           CASE WHEN (a.policy).counts_payments THEN (SELECT t.payee_counted FROM tallied t WHERE t.place = a.place) END,
           CASE WHEN v_has_more THEN ledger_held(a.agent, a.service, a.held_id) END,
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
                          FROM payments_installation i WHERE i.id = 1) END AS key_hash) k;

    IF v_has_trees THEN
        RETURN QUERY
        WITH above AS MATERIALIZED (
            SELECT f.* FROM payments_facts_of(v_locked, v_come_to, v_clock_at) f
             WHERE f.id IN (SELECT unnest(a.ancestors) FROM policy_agent a WHERE a.id = ANY (p_agents))
        ), asked AS MATERIALIZED (
            SELECT row_number() OVER () AS number, q.place, q.service, q.held_id, l.*,
                   cardinality(o.ancestors) - array_position(o.ancestors, l.id::varchar) + 1 AS level
              FROM unnest(p_agents, p_keys, p_services, p_held) WITH ORDINALITY AS q(agent_id, key, service, held_id, place)
             CROSS JOIN LATERAL (SELECT a.ancestors FROM policy_agent a WHERE a.id = q.agent_id LIMIT 1) o
              JOIN above l ON l.id = ANY (o.ancestors)
             WHERE o.ancestors::text[] <@ v_locked AND (q.held_id IS NOT NULL OR NOT EXISTS (
                   SELECT FROM ledger_logentry e WHERE e.agent_id = q.agent_id AND e.idempotency_key = q.key))
        ), tallied AS MATERIALIZED (
            SELECT t.* FROM (SELECT array_agg(id ORDER BY number) AS agents, array_agg(service ORDER BY number) AS payees,
                                    array_agg(decided_at ORDER BY number) AS at
                               FROM asked HAVING bool_or((policy).counts_payments)) a,
                   LATERAL ledger_tallied(a.agents, a.payees, a.at) t
        )
        SELECT l.place::int, l.level, NULL::policy_apikey, NULL, NULL, l.decided_at, v_clock_at, l.clock_repairs, l.spent[1], l.spent[2],
               ledger_counted_by(l.policy, l.spent, t.counted), t.payee_counted, ledger_held(l.agent, l.service, l.held_id),
               NULL, NULL::timestamptz[], NULL::boolean, NULL::bytea, NULL::boolean, NULL, NULL::int, l.agent, l.policy,
               NULL::services_service, NULL::payments_payeestate, NULL::payments_relayer, NULL::payments_chainstate
          FROM asked l LEFT JOIN tallied t ON t.place = l.number;
    END IF;
    IF p_wait_ms IS NOT NULL AND EXISTS (
        SELECT FROM policy_agent a WHERE a.id = ANY (p_agents) AND NOT a.ancestors::text[] <@ v_locked
    ) THEN
        RAISE EXCEPTION 'An agent was moved while it was waited for.' USING ERRCODE = 'lock_not_available';
    END IF;
END $$;
