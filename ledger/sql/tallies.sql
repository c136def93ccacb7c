-- Payments of an agent by number and by payee, for the optional limits that need it: running totals, as in windows.sql.
--
-- `ledger_tally` has what an agent has paid until now: in all (payee ''), and to each payee. `ledger_tallymark` has the same as it was
-- after each payment, so that what a window holds is the difference of two of them. Both are kept for agents only whose policy counts
-- payments (`counts_payments`): made from the log when it begins to, then with each payment. Whoever reads them checks that they have come
-- as far as the log.

-- Counts a payment that an agent, whose policy counts them, has just made. The caller holds its row: so nobody else makes its tallies.
CREATE OR REPLACE FUNCTION ledger_tally_payment(p_agent text, p_payee text, p_amount numeric, p_entry text, p_at timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WITH more AS (
        UPDATE ledger_tally t SET payments = t.payments + 1, spent = t.spent + p_amount, entry_id = p_entry
         WHERE t.agent_id = p_agent AND t.payee IN ('', p_payee) RETURNING t.payee, t.payments, t.spent
    ), first AS (
        INSERT INTO ledger_tally (agent_id, payee, payments, spent, returned_payments, returned, entry_id)
             SELECT p_agent, t.payee, 1, p_amount, 0, 0, p_entry FROM (VALUES (''), (p_payee)) AS t(payee)
              WHERE NOT EXISTS (SELECT FROM more WHERE more.payee = t.payee) RETURNING payee, payments, spent
    )
    INSERT INTO ledger_tallymark (agent_id, payee, at, payments, spent)
         SELECT p_agent, t.payee, p_at, t.payments, t.spent FROM (TABLE more UNION ALL TABLE first) AS t;
END $$;

-- Makes the tallies of an agent anew, from the whole log and all that was given back: some seconds for a million payments.
CREATE OR REPLACE FUNCTION ledger_tally_anew(p_agent text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM ledger_tally WHERE agent_id = p_agent;
    DELETE FROM ledger_tallymark WHERE agent_id = p_agent;
    WITH dated AS (
        -- What was in the future when the clock was repaired counts until the moment of the last of it, as in windows.sql.
        SELECT e.*, p.payee, e.amount::numeric AS paid, least(e.created_at, r.repaired_at) AS at,
               CASE WHEN e.created_at > r.repaired_at THEN r.head_at END AS carried_until
          FROM ledger_logentry e
          LEFT JOIN ledger_clockrepair r ON r.agent_id = e.agent_id AND r.number = COALESCE(e.clock_repairs, 0) + 1
         CROSS JOIN LATERAL (VALUES (''), (e.service)) AS p(payee)
         WHERE e.agent_id = p_agent AND e.result = 'approved'
    ), counted AS (
        -- Marks that have left all windows are not needed, but the last of them.
        SELECT d.*, row_number() OVER w AS payments, sum(d.paid) OVER w AS spent,
               COALESCE(lead(d.at) OVER w > a.last_entry_at - interval '8 days', true) AS is_kept
          FROM dated d JOIN policy_agent a ON a.id = d.agent_id
        WINDOW w AS (PARTITION BY d.payee ORDER BY COALESCE(d.clock_repairs, 0), d.created_at, d.id)
    ), marked AS (
        INSERT INTO ledger_tallymark (agent_id, payee, at, payments, spent, carried, carried_until)
        SELECT agent_id, payee, at, payments, spent, CASE WHEN carried_until IS NOT NULL THEN paid END, carried_until
          FROM counted WHERE is_kept OR carried_until IS NOT NULL
    )
    INSERT INTO ledger_tally (agent_id, payee, payments, spent, returned_payments, returned, entry_id)
    (SELECT DISTINCT ON (payee) agent_id, payee, payments, spent, 0, 0, id FROM counted ORDER BY payee, payments DESC)
    -- Of an agent that has not paid yet, too: so it is known that nothing is missing.
    UNION ALL SELECT p_agent, '', 0, 0, 0, 0, NULL WHERE NOT EXISTS (SELECT FROM counted);
    UPDATE ledger_tally t SET returned_payments = r.payments, returned = r.amount
      FROM (SELECT p.payee, count(*) AS payments, sum(m.amount) AS amount
              FROM ledger_balancemovement m
              JOIN ledger_logentry e ON e.agent_id = m.agent_id AND e.created_at = m.spent_at AND e.payment_id = m.payment_id
               AND e.result = 'approved'
             CROSS JOIN LATERAL (VALUES (''), (e.service)) AS p(payee)
             WHERE m.agent_id = p_agent AND m.kind = 'return' GROUP BY p.payee) r
     WHERE t.agent_id = p_agent AND t.payee = r.payee;
END $$;

-- A policy that counts payments begins with those of before, unless they are counted already.
CREATE OR REPLACE FUNCTION ledger_begin_tally() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger_tally t JOIN policy_agent a ON a.id = t.agent_id
                    WHERE t.agent_id = NEW.agent_id AND t.payee = '' AND t.spent = a.spent_total) THEN
        PERFORM ledger_tally_anew(NEW.agent_id);
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER begin_tally AFTER INSERT ON policy_policyrevision
    FOR EACH ROW WHEN (NEW.counts_payments) EXECUTE FUNCTION ledger_begin_tally();

-- What is given back leaves the tally; the windows look for it by when it was spent. It may have been held in the same moment: that is
-- another entry with its id.
CREATE OR REPLACE FUNCTION ledger_tally_return() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    paid_to text;
BEGIN
    UPDATE ledger_tally SET returned_payments = returned_payments + 1, returned = returned + NEW.amount
     WHERE agent_id = NEW.agent_id AND payee = '';
    IF FOUND THEN
        SELECT e.service INTO paid_to FROM ledger_logentry e
         WHERE e.agent_id = NEW.agent_id AND e.created_at = NEW.spent_at AND e.payment_id = NEW.payment_id AND e.result = 'approved';
        UPDATE ledger_tally SET returned_payments = returned_payments + 1, returned = returned + NEW.amount
         WHERE agent_id = NEW.agent_id AND payee = paid_to;
        -- Its payee has no tally yet if nothing has been counted since before it was paid first.
        IF NOT FOUND AND paid_to IS NOT NULL THEN
            INSERT INTO ledger_tally (agent_id, payee, payments, spent, returned_payments, returned, entry_id)
                 VALUES (NEW.agent_id, paid_to, 0, 0, 1, NEW.amount, NULL);
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER tally_return AFTER INSERT ON ledger_balancemovement
    FOR EACH ROW WHEN (NEW.kind = 'return') EXECUTE FUNCTION ledger_tally_return();

CREATE OR REPLACE FUNCTION ledger_repair_tally() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM ledger_tally WHERE agent_id = NEW.agent_id) THEN
        PERFORM ledger_tally_anew(NEW.agent_id);
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER repair_tally AFTER INSERT ON ledger_clockrepair
    FOR EACH ROW EXECUTE FUNCTION ledger_repair_tally();

-- The number of an agent's payments in (p_since, now]; p_payments: of all until now. A table, as in windows.sql. p_is_plain: its clock was
-- never repaired, and nothing was given back.
CREATE OR REPLACE FUNCTION ledger_payments_window(p_agent text, p_payments numeric, p_since timestamptz, p_is_plain boolean DEFAULT false)
RETURNS TABLE (payments numeric) LANGUAGE sql STABLE PARALLEL SAFE ROWS 1 AS $$
    SELECT p_payments
         - COALESCE((SELECT m.payments FROM ledger_tallymark m WHERE agent_id = p_agent AND payee = '' AND at <= p_since
                      ORDER BY at DESC, m.payments DESC LIMIT 1), 0)
         + CASE WHEN p_is_plain THEN 0 ELSE
           (SELECT count(*) FROM ledger_tallymark
             WHERE agent_id = p_agent AND payee = '' AND carried_until > p_since AND at <= p_since)
         - (SELECT count(*) FROM ledger_balancemovement WHERE agent_id = p_agent AND kind = 'return' AND spent_at > p_since) END
$$;

-- What an agent has paid to a payee in (p_since, now]; p_spent: until now. p_is_plain as above: whoever was paid.
CREATE OR REPLACE FUNCTION ledger_payee_window(
    p_agent text, p_payee text, p_spent numeric, p_since timestamptz, p_is_plain boolean DEFAULT false
) RETURNS TABLE (spent numeric) LANGUAGE sql STABLE PARALLEL SAFE ROWS 1 AS $$
    SELECT p_spent
         - COALESCE((SELECT m.spent FROM ledger_tallymark m WHERE agent_id = p_agent AND payee = p_payee AND at <= p_since
                      ORDER BY at DESC, payments DESC LIMIT 1), 0)
         + CASE WHEN p_is_plain THEN 0 ELSE
           COALESCE((SELECT sum(carried) FROM ledger_tallymark
                      WHERE agent_id = p_agent AND payee = p_payee AND carried_until > p_since AND at <= p_since), 0)
         - COALESCE((SELECT sum(m.amount) FROM ledger_balancemovement m
                       JOIN ledger_logentry e ON e.agent_id = m.agent_id AND e.created_at = m.spent_at
                        AND e.payment_id = m.payment_id AND e.service = p_payee AND e.result = 'approved'
                      WHERE m.agent_id = p_agent AND m.kind = 'return' AND m.spent_at > p_since), 0) END
$$;

-- What the optional limits of policies that count payments compare beside `ledger_spent`, with what all below the agent have paid. These
-- arrays have a place for each request; those by a policy that counts no payments are left out.
--
-- `counted` is of all payees: all that was ever spent, the payments of an hour and of a day; and the number of the agent's own until
-- now, what was given back among them. Null where nothing needs it, and where the tally has not come as far as the log.
-- `payee_counted` is of the payee: what was paid to it in a day and in a week, all payments to it that were not given back, and all that
-- the agent itself has paid to it until now.
CREATE OR REPLACE FUNCTION ledger_tallied(p_agents text[], p_payees text[], p_at timestamptz[])
RETURNS TABLE (place int, counted numeric[], payee_counted numeric[]) LANGUAGE plpgsql STABLE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT q.place::int,
           ARRAY[tally.spent - tally.returned + CASE WHEN q.is_in_tree AND q.more ? 'totalLimit'
                                                     THEN (ledger_below_since(q.agent_id, '-infinity'))[1] ELSE 0 END]
           || ARRAY(
               SELECT CASE WHEN since IS NOT NULL THEN
                          w.payments + CASE WHEN q.is_in_tree THEN (ledger_below_since(q.agent_id, since))[2] ELSE 0 END END
                 FROM unnest(ARRAY[CASE WHEN q.more ? 'paymentsPerHour' THEN q.at - interval '1 hour' END,
                                   CASE WHEN q.more ? 'paymentsPerDay' THEN q.at - interval '24 hours' END]) AS since,
                      LATERAL ledger_payments_window(q.agent_id, tally.payments, since,
                              NOT q.is_repaired AND tally.returned_payments = 0) w)
           || tally.payments,
           ARRAY(
               SELECT CASE WHEN since IS NOT NULL THEN
                          w.spent + CASE WHEN q.is_in_tree THEN (ledger_payee_below_since(q.agent_id, q.payee, since))[1] ELSE 0 END END
                 FROM unnest(ARRAY[
                          CASE WHEN q.more ?| ARRAY['payeeDailyLimit', 'payeeLimits'] THEN q.at - interval '24 hours' END,
                          CASE WHEN q.more ?| ARRAY['payeeWeeklyLimit', 'payeeLimits'] THEN q.at - interval '7 days' END]) AS since,
                      LATERAL ledger_payee_window(q.agent_id, q.payee, COALESCE(to_payee.spent, 0), since,
                              NOT q.is_repaired AND tally.returned_payments = 0) w)
           || ARRAY[COALESCE(to_payee.payments - to_payee.returned_payments, 0)
                    + CASE WHEN q.is_in_tree AND q.more ?| ARRAY['newPayeePayments', 'approvalForFirst']
                           THEN (ledger_payee_below_since(q.agent_id, q.payee, '-infinity'))[2] ELSE 0 END,
                    COALESCE(to_payee.spent, 0)]
      FROM (SELECT asked.*, a.spent_total, a.ancestors IS NOT NULL AS is_in_tree, p.more_json::jsonb AS more,
                   EXISTS (SELECT FROM ledger_clockrepair r WHERE r.agent_id = asked.agent_id) AS is_repaired
              FROM unnest(p_agents, p_payees, p_at) WITH ORDINALITY AS asked(agent_id, payee, at, place)
             CROSS JOIN LATERAL (SELECT o.spent_total, o.ancestors, o.policy_revision FROM policy_agent o
                                  WHERE o.id = asked.agent_id LIMIT 1) a
             CROSS JOIN LATERAL (SELECT o.more_json, o.counts_payments FROM policy_policyrevision o
                                  WHERE o.agent_id = asked.agent_id AND o.number = a.policy_revision LIMIT 1) p
             WHERE p.counts_payments OFFSET 0) q
      LEFT JOIN LATERAL (SELECT t.* FROM ledger_tally t
                          WHERE t.agent_id = q.agent_id AND t.payee = '' AND t.spent = q.spent_total LIMIT 1) tally ON true
      LEFT JOIN LATERAL (SELECT t.* FROM ledger_tally t WHERE t.agent_id = q.agent_id AND t.payee = q.payee LIMIT 1) to_payee ON true;
END $$;

-- What the optional limits of a policy compare, whoever is paid, of what `ledger_spent` and `ledger_tallied` return. Null: it has none.
CREATE OR REPLACE FUNCTION ledger_counted_by(p_policy policy_policyrevision, p_spent numeric[], p_tallied numeric[]) RETURNS numeric[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT CASE WHEN (p_policy).more_json <> '{}' THEN p_spent[3:4] || COALESCE(p_tallied, '{NULL,NULL,NULL,NULL}') END
$$;
