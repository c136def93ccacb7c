-- Payments of an agent by number and by payee, for the optional limits that need it: running totals, as in windows.sql.
--
-- `ledger_tally` has what an agent has paid until now: in all (payee ''), and to each payee. `ledger_tallymark` has the same as it was
-- after each payment, so that what a window holds is the difference of two of them. Both are made from the log, and kept for agents
-- only whose policy counts payments (`counts_payments`); whoever reads them checks that they have come as far as the log.

-- Brings the tallies of some agents, which have one, up to the log: entry by entry, for mostly there is one. The caller holds their rows.
CREATE OR REPLACE FUNCTION ledger_tally_up(p_agents text[]) RETURNS void LANGUAGE plpgsql VOLATILE
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off
AS $$
DECLARE
    head record;
    entry record;
    payee text;
    tally ledger_tally%ROWTYPE;
BEGIN
    FOR head IN
        SELECT t.agent_id, r.repairs, COALESCE(e.id, '') AS id, CASE WHEN e.repairs = r.repairs THEN e.created_at ELSE '-infinity' END AS at
          FROM unnest(p_agents) AS a(id)
          JOIN ledger_tally t ON t.agent_id = a.id AND t.payee = ''
         CROSS JOIN LATERAL (SELECT count(*) AS repairs FROM ledger_clockrepair c WHERE c.agent_id = a.id) r
          LEFT JOIN LATERAL (SELECT l.id, l.created_at, COALESCE(l.clock_repairs, 0) AS repairs
                               FROM ledger_logentry l WHERE l.id = t.entry_id AND l.agent_id = t.agent_id LIMIT 1) e ON true
    LOOP
        FOR entry IN
            SELECT l.id, l.service, l.amount::numeric AS amount, l.created_at FROM ledger_logentry l
             WHERE l.agent_id = head.agent_id AND l.result = 'approved' AND (l.created_at, l.id) > (head.at, head.id)
               AND COALESCE(l.clock_repairs, 0) = head.repairs
             ORDER BY l.created_at, l.id
        LOOP
            FOREACH payee IN ARRAY ARRAY['', entry.service] LOOP
                INSERT INTO ledger_tally AS t (agent_id, payee, payments, spent, returned_payments, returned, entry_id)
                     VALUES (head.agent_id, payee, 1, entry.amount, 0, 0, entry.id)
                    ON CONFLICT ON CONSTRAINT ledger_tally_pkey DO UPDATE
                       SET payments = t.payments + 1, spent = t.spent + entry.amount, entry_id = entry.id
                  RETURNING * INTO tally;
                INSERT INTO ledger_tallymark (agent_id, payee, at, payments, spent)
                     VALUES (tally.agent_id, tally.payee, entry.created_at, tally.payments, tally.spent);
            END LOOP;
        END LOOP;
    END LOOP;
END $$;

-- Makes the tallies of an agent anew, from the whole log and all that was given back: some seconds for a million payments.
CREATE OR REPLACE FUNCTION ledger_tally_anew(p_agent text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    DELETE FROM ledger_tally WHERE agent_id = p_agent;
    DELETE FROM ledger_tallymark WHERE agent_id = p_agent;
    -- Of an agent that has not paid yet, too: so it is known that nothing is missing.
    INSERT INTO ledger_tally (agent_id, payee, payments, spent, returned_payments, returned, entry_id)
         VALUES (p_agent, '', 0, 0, 0, 0, NULL);
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
    SELECT DISTINCT ON (payee) agent_id, payee, payments, spent, 0, 0, id FROM counted ORDER BY payee, payments DESC
        ON CONFLICT (agent_id, payee) DO UPDATE
           SET payments = EXCLUDED.payments, spent = EXCLUDED.spent, entry_id = EXCLUDED.entry_id;
    UPDATE ledger_tally t SET returned_payments = r.payments, returned = r.amount
      FROM (SELECT p.payee, count(*) AS payments, sum(m.amount) AS amount
              FROM ledger_balancemovement m
              JOIN ledger_logentry e ON e.agent_id = m.agent_id AND e.created_at = m.spent_at AND e.payment_id = m.payment_id
               AND e.result = 'approved'
             CROSS JOIN LATERAL (VALUES (''), (e.service)) AS p(payee)
             WHERE m.agent_id = p_agent AND m.kind = 'return' GROUP BY p.payee) r
     WHERE t.agent_id = p_agent AND t.payee = r.payee;
END $$;

-- A policy that counts payments begins with those of before.
CREATE OR REPLACE FUNCTION ledger_begin_tally() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM ledger_tally WHERE agent_id = NEW.agent_id AND payee = '') THEN
        PERFORM ledger_tally_up(ARRAY[NEW.agent_id::text]);
    ELSE
        PERFORM ledger_tally_anew(NEW.agent_id);
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER begin_tally AFTER INSERT ON policy_policyrevision
    FOR EACH ROW WHEN (NEW.counts_payments) EXECUTE FUNCTION ledger_begin_tally();

-- What is given back leaves the tally; the windows look for it by when it was spent. It may have been held in the same moment: that is
-- another entry with its id.
CREATE OR REPLACE FUNCTION ledger_tally_return() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE ledger_tally SET returned_payments = returned_payments + 1, returned = returned + NEW.amount
     WHERE agent_id = NEW.agent_id AND payee IN ('', (
           SELECT e.service FROM ledger_logentry e
            WHERE e.agent_id = NEW.agent_id AND e.created_at = NEW.spent_at AND e.payment_id = NEW.payment_id
              AND e.result = 'approved'));
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

-- The number of an agent's payments in (p_since, now]; p_payments: of all until now.
CREATE OR REPLACE FUNCTION ledger_payments_since(p_agent text, p_payments numeric, p_since timestamptz) RETURNS numeric
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT p_payments
         - COALESCE((SELECT payments FROM ledger_tallymark WHERE agent_id = p_agent AND payee = '' AND at <= p_since
                      ORDER BY at DESC, payments DESC LIMIT 1), 0)
         + (SELECT count(*) FROM ledger_tallymark
             WHERE agent_id = p_agent AND payee = '' AND carried_until > p_since AND at <= p_since)
         - (SELECT count(*) FROM ledger_balancemovement WHERE agent_id = p_agent AND kind = 'return' AND spent_at > p_since)
$$;

-- What an agent has paid to a payee in (p_since, now]; p_spent: until now.
CREATE OR REPLACE FUNCTION ledger_payee_spent_since(p_agent text, p_payee text, p_spent numeric, p_since timestamptz) RETURNS numeric
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT p_spent
         - COALESCE((SELECT spent FROM ledger_tallymark WHERE agent_id = p_agent AND payee = p_payee AND at <= p_since
                      ORDER BY at DESC, payments DESC LIMIT 1), 0)
         + COALESCE((SELECT sum(carried) FROM ledger_tallymark
                      WHERE agent_id = p_agent AND payee = p_payee AND carried_until > p_since AND at <= p_since), 0)
         - COALESCE((SELECT sum(m.amount) FROM ledger_balancemovement m
                       JOIN ledger_logentry e ON e.agent_id = m.agent_id AND e.created_at = m.spent_at
                        AND e.payment_id = m.payment_id AND e.service = p_payee AND e.result = 'approved'
                      WHERE m.agent_id = p_agent AND m.kind = 'return' AND m.spent_at > p_since), 0)
$$;

-- What the optional limits of a policy compare, whoever is paid: the spend of an hour and of 30 days, and where payments are counted all
-- that was ever spent, the payments of an hour and of a day, each with what all below the agent have paid; and the number of the agent's
-- own until now, what was given back among them. Null where nothing needs it, and where the tally has not come as far as the log.
CREATE OR REPLACE FUNCTION ledger_counted(p_agent policy_agent, p_at timestamptz, p_policy policy_policyrevision) RETURNS numeric[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
    more jsonb := p_policy.more_json::jsonb;
    tally ledger_tally%ROWTYPE;
    counted numeric[];
BEGIN
    IF p_policy.counts_payments THEN
        SELECT * INTO tally FROM ledger_tally t WHERE t.agent_id = p_agent.id AND t.payee = '' AND t.spent = p_agent.spent_total;
    END IF;
    counted := ARRAY[
        CASE WHEN more ? 'hourlyLimit' THEN ledger_spent_since(p_agent.id, p_agent.spent_total, p_at - interval '1 hour') END,
        CASE WHEN more ? 'monthlyLimit' THEN ledger_spent_since(p_agent.id, p_agent.spent_total, p_at - interval '30 days') END,
        tally.spent - tally.returned,
        CASE WHEN more ? 'paymentsPerHour' THEN ledger_payments_since(p_agent.id, tally.payments, p_at - interval '1 hour') END,
        CASE WHEN more ? 'paymentsPerDay' THEN ledger_payments_since(p_agent.id, tally.payments, p_at - interval '24 hours') END,
        tally.payments];
    IF p_agent.ancestors IS NULL THEN RETURN counted; END IF;
    IF more ? 'hourlyLimit' THEN counted[1] := counted[1] + (ledger_below_since(p_agent.id, p_at - interval '1 hour'))[1]; END IF;
    IF more ? 'monthlyLimit' THEN counted[2] := counted[2] + (ledger_below_since(p_agent.id, p_at - interval '30 days'))[1]; END IF;
    IF more ? 'totalLimit' THEN counted[3] := counted[3] + (ledger_below_since(p_agent.id, '-infinity'))[1]; END IF;
    IF more ? 'paymentsPerHour' THEN counted[4] := counted[4] + (ledger_below_since(p_agent.id, p_at - interval '1 hour'))[2]; END IF;
    IF more ? 'paymentsPerDay' THEN counted[5] := counted[5] + (ledger_below_since(p_agent.id, p_at - interval '24 hours'))[2]; END IF;
    RETURN counted;
END $$;

-- The same of one payee: what was paid to it in a day and in a week, all payments to it that were not given back, each with those of all
-- below the agent, and all that the agent itself has paid to it until now. Null where payments are not counted.
CREATE OR REPLACE FUNCTION ledger_payee_counted(
    p_agent policy_agent, p_payee text, p_at timestamptz, p_policy policy_policyrevision
) RETURNS numeric[] LANGUAGE plpgsql STABLE AS $$
DECLARE
    more jsonb := p_policy.more_json::jsonb;
    tally ledger_tally%ROWTYPE;
    spent numeric;
    counted numeric[];
BEGIN
    SELECT * INTO tally FROM ledger_tally t WHERE t.agent_id = p_agent.id AND t.payee = p_payee;
    spent := COALESCE(tally.spent, 0);
    counted := ARRAY[
        CASE WHEN more ?| ARRAY['payeeDailyLimit', 'payeeLimits']
             THEN ledger_payee_spent_since(p_agent.id, p_payee, spent, p_at - interval '24 hours') END,
        CASE WHEN more ?| ARRAY['payeeWeeklyLimit', 'payeeLimits']
             THEN ledger_payee_spent_since(p_agent.id, p_payee, spent, p_at - interval '7 days') END,
        COALESCE(tally.payments - tally.returned_payments, 0),
        spent];
    IF p_agent.ancestors IS NULL THEN RETURN counted; END IF;
    IF counted[1] IS NOT NULL THEN
        counted[1] := counted[1] + (ledger_payee_below_since(p_agent.id, p_payee, p_at - interval '24 hours'))[1];
    END IF;
    IF counted[2] IS NOT NULL THEN
        counted[2] := counted[2] + (ledger_payee_below_since(p_agent.id, p_payee, p_at - interval '7 days'))[1];
    END IF;
    IF more ?| ARRAY['newPayeePayments', 'approvalForFirst'] THEN
        counted[3] := counted[3] + (ledger_payee_below_since(p_agent.id, p_payee, '-infinity'))[2];
    END IF;
    RETURN counted;
END $$;
