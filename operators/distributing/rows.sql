-- The group of each row. Agents of a tree are together; what one server shared, each group gets.
INSERT INTO distributed_agent (agent_id, agent_group)
     SELECT a.id, g.number FROM policy_agent a
       JOIN distributed_group g ON g.place = (hashtext(COALESCE(a.ancestors[1], a.id)) & 2147483647) % (SELECT count(*) FROM distributed_group);

-- Copies the rows of a table that a condition names to all groups that they are not in.
CREATE FUNCTION pg_temp.copy_rows(p_table text, p_condition text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    columns text := (SELECT string_agg(quote_ident(attname), ', ') FROM pg_attribute
                      WHERE attrelid = p_table::regclass AND attnum > 0 AND NOT attisdropped AND attname <> 'agent_group');
BEGIN
    EXECUTE format('INSERT INTO %1$I (%2$s, agent_group) OVERRIDING SYSTEM VALUE SELECT %3$s, g.number FROM %1$I t JOIN distributed_group g ON %4$s',
                   p_table, columns, 't.' || replace(columns, ', ', ', t.'), 'g.number <> t.agent_group AND (' || p_condition || ')');
END $$;

-- Makes a table of each group's copies of the rows of another one.
CREATE FUNCTION pg_temp.make_copy(p_copy text, p_table text, p_key text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TABLE %1$I (LIKE %2$I INCLUDING DEFAULTS, agent_group int NOT NULL, PRIMARY KEY (%3$I, agent_group))', p_copy, p_table, p_key);
    EXECUTE format('INSERT INTO %1$I SELECT t.*, g.number FROM %2$I t CROSS JOIN distributed_group g', p_copy, p_table);
END $$;

-- Lets the numbers of a table's rows go on from the highest.
CREATE FUNCTION pg_temp.count_on(p_table text, p_column text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SELECT setval(pg_get_serial_sequence(%1$L, %2$L), max(%2$I)) FROM %1$s', p_table, p_column);
END $$;

-- By their agent.
DO $$
DECLARE
    one text;
BEGIN
    FOREACH one IN ARRAY ARRAY['policy_policyrevision', 'policy_shadowrevision', 'ledger_logentry', 'ledger_balancemovement', 'ledger_hold',
                               'ledger_tally', 'ledger_tallymark', 'ledger_clockrepair', 'payments_payment', 'payments_leg', 'payments_agentgas'] LOOP
        EXECUTE format('UPDATE %I t SET agent_group = a.agent_group FROM distributed_agent a WHERE a.agent_id = t.agent_id', one);
    END LOOP;
END $$;
UPDATE policy_agent t SET agent_group = a.agent_group FROM distributed_agent a WHERE a.agent_id = t.id;
UPDATE ledger_levelpayment t SET agent_group = a.agent_group FROM distributed_agent a WHERE a.agent_id = t.level_id;

-- Relayers with nonces submit for one group from now on, others for all. A transaction of before may have paid for several: each of them gets it, with the account that
-- submitted it, which is no relayer of theirs: as one of an earlier seed, whose key is gone.
UPDATE payments_relayer t SET agent_group = g.number
  FROM distributed_group g WHERE g.place = t.number % (SELECT count(*) FROM distributed_group);
-- Each by a join: the keys are taken away, and to look rows up one by one reads all of them each time.
UPDATE payments_settlement t SET agent_group = l.agent_group
  FROM (SELECT tx, min(agent_group) AS agent_group FROM payments_leg GROUP BY tx) l WHERE l.tx = t.tx;
UPDATE payments_settlement t SET agent_group = r.agent_group FROM payments_relayer r WHERE r.id = t.relayer_id AND t.agent_group IS NULL;
SELECT pg_temp.copy_rows('payments_settlement', 'EXISTS (SELECT FROM payments_leg l WHERE l.tx = t.tx AND l.agent_group = g.number)');
UPDATE payments_settlement t SET payment_id = l.payment_id
  FROM (SELECT tx, agent_group, min(payment_id) AS payment_id FROM payments_leg GROUP BY tx, agent_group) l
 WHERE l.tx = t.tx AND l.agent_group = t.agent_group AND t.payment_id IS NOT NULL AND t.payment_id <> l.payment_id;
UPDATE payments_transition t SET agent_group = s.agent_group
  FROM (SELECT tx, min(agent_group) AS agent_group FROM payments_settlement GROUP BY tx) s WHERE s.tx = t.settlement_id;
CREATE TEMPORARY TABLE relayer_of_group ON COMMIT DROP AS SELECT DISTINCT relayer_id, agent_group FROM payments_settlement;
SELECT pg_temp.copy_rows('payments_relayer', 't.next_nonce IS NULL OR EXISTS (SELECT FROM relayer_of_group s WHERE s.relayer_id = t.id AND s.agent_group = g.number)');
UPDATE payments_relayer t SET number = 1000000 + t.number, is_enabled = false
  FROM distributed_group g
 WHERE g.number = t.agent_group AND t.next_nonce IS NOT NULL AND g.place <> t.number % (SELECT count(*) FROM distributed_group);

-- What is seen of payees; and the endpoints of payees, which receive the events of all groups.
UPDATE payments_payeestate SET agent_group = (SELECT min(number) FROM distributed_group);
UPDATE services_webhookendpoint t SET agent_group = COALESCE(
       (SELECT a.agent_group FROM distributed_agent a WHERE a.agent_id = t.agent_id), (SELECT min(number) FROM distributed_group));
SELECT pg_temp.copy_rows('payments_payeestate', 'true');
SELECT pg_temp.copy_rows('services_webhookendpoint', 't.agent_id IS NULL');
UPDATE services_webhookevent t SET agent_group = COALESCE(
       (SELECT a.agent_group FROM distributed_agent a WHERE a.agent_id = COALESCE(t.agent_id, t.payload::jsonb -> 'data' ->> 'agentId')),
       (SELECT min(number) FROM distributed_group));
UPDATE services_webhookdelivery t SET agent_group = e.agent_group FROM services_webhookevent e WHERE e.id = t.event_id;
UPDATE services_webhookattempt t SET agent_group = e.agent_group FROM services_webhookevent e WHERE e.id = t.delivery_id;

DO $$
DECLARE
    one record;
    highest bigint;
BEGIN
    FOR one IN
        SELECT c.oid::regclass AS name, a.attname AS column_name FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
         WHERE a.attidentity <> '' AND NOT a.attisdropped AND c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
    LOOP
        EXECUTE format('SELECT COALESCE(max(%I), 0) FROM %s', one.column_name, one.name) INTO highest;
        UPDATE distributed_group SET above = greatest(above, highest);
    END LOOP;
END $$;
