-- What a node needs to work for a group: a schema with the group's part of each table, and the functions over it.
--
-- The parts are views of the shards: PostgreSQL's own tables, which it plans and locks as any other, without Citus. A view leaves out
-- `agent_group`, which is the same in all rows of a shard, and its default there. So all SQL of the product is the same with and
-- without Citus. These functions are made on each node; `manage.py distribute` calls them.

-- Keeps a shard as it is once it is on another node: what is written here waits until a move of the shard has ended, and is then refused. The
-- first write of a transaction asks, and holds the lock until its end: so the trigger is left out (WHEN) for all that follow.
CREATE OR REPLACE FUNCTION distributed_require_here(p_anchor bigint) RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    PERFORM lock_shard_metadata(5, ARRAY[p_anchor]);  -- 5: shared; a move takes it alone while it ends
    IF NOT EXISTS (SELECT FROM pg_dist_placement p JOIN pg_dist_local_group l USING (groupid) WHERE p.shardid = p_anchor) THEN
        RAISE EXCEPTION 'The group was moved to another node' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
END $$;
CREATE OR REPLACE FUNCTION distributed_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM public.distributed_require_here(TG_ARGV[0]::bigint);
    PERFORM pg_catalog.set_config('distributed.guarded', TG_ARGV[0], true);  -- a savepoint that lets go of the lock forgets this, too
    RETURN NULL;
END $$;

-- Makes this node ready, whatever groups it has: settings, and views of its own copies of what is on every node (`node.services_service`).
CREATE OR REPLACE FUNCTION distributed_open_node() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    one record;
BEGIN
    SET LOCAL citus.enable_ddl_propagation = off;
    SET LOCAL citus.override_table_visibility = off;
    SET LOCAL client_min_messages = warning;
    -- The triggers are those of the product, which hold on each shard. A session that keeps its connections to other nodes would fail once
    -- with each of them after a node was lost, and whoever reads all groups would wait for one that is cut off.
    EXECUTE format('ALTER DATABASE %I SET citus.enable_unsafe_triggers = on', current_database());
    EXECUTE format('ALTER DATABASE %I SET citus.max_cached_conns_per_worker = 0', current_database());
    EXECUTE format('ALTER DATABASE %I SET citus.node_connection_timeout = %s', current_database(), 3000);
    CREATE SCHEMA IF NOT EXISTS node;
    FOR one IN
        SELECT c.relname AS name, format('%I.%I', n.nspname, c.relname || '_' || s.shardid) AS shard
          FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid JOIN pg_namespace n ON n.oid = c.relnamespace
          JOIN pg_dist_shard s ON s.logicalrelid = p.logicalrelid WHERE n.nspname = 'public' AND p.repmodel = 't'
    LOOP
        EXECUTE format('CREATE OR REPLACE VIEW node.%I AS SELECT * FROM %s', one.name, one.shard);
    END LOOP;
    -- Functions have rows of what groups have copies of. The table is on the coordinator; elsewhere nothing is of this name but a type.
    FOR one IN
        SELECT substr(c.relname, length('distributed_copy_of_') + 1) AS name, c.relname AS copy, string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) AS columns
          FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'agent_group'
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname LIKE 'distributed\_copy\_of\_%'
           AND EXISTS (SELECT FROM pg_dist_partition p WHERE p.logicalrelid = c.oid) GROUP BY c.relname
    LOOP
        IF NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname = one.name AND relkind = 'r') THEN
            EXECUTE format('CREATE OR REPLACE VIEW public.%I AS SELECT %s FROM public.%I WHERE false', one.name, one.columns, one.copy);
        END IF;
    END LOOP;
END $$;

-- Makes the schema of a group anew. `p_entries`: the functions that read what is on every node past Citus. `p_triggers`: those of
-- the tables of groups, as the coordinator has them.
CREATE OR REPLACE FUNCTION distributed_open(p_group int, p_entries text[], p_triggers jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    part text := 'group_' || p_group;
    anchor bigint := get_shard_id_for_distribution_column('policy_agent', p_group);
    one record;
    highest bigint;
    sequence text;
BEGIN
    SET LOCAL citus.enable_ddl_propagation = off;
    SET LOCAL citus.override_table_visibility = off;
    SET LOCAL check_function_bodies = off;
    SET LOCAL client_min_messages = warning;
    EXECUTE format('DROP SCHEMA IF EXISTS %I CASCADE', part);
    EXECUTE format('CREATE SCHEMA %I', part);
    FOR one IN
        SELECT c.relname AS name, format('%I.%I', n.nspname, c.relname || '_' || s.shardid) AS shard,
               (SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
                 WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> 'agent_group') AS columns
          FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid JOIN pg_namespace n ON n.oid = c.relnamespace
          JOIN pg_dist_shard s ON s.logicalrelid = p.logicalrelid
         WHERE n.nspname = 'public' AND p.partmethod = 'h' AND s.shardid = get_shard_id_for_distribution_column(p.logicalrelid, p_group)
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN agent_group SET DEFAULT %s', one.shard, p_group);
        -- A copy has the name of what it is a copy of.
        EXECUTE format('CREATE VIEW %I.%I AS SELECT %s FROM %s', part, replace(one.name, 'distributed_copy_of_', ''), one.columns, one.shard);
        EXECUTE format('CREATE OR REPLACE TRIGGER distributed_guard BEFORE INSERT OR UPDATE OR DELETE ON %s FOR EACH STATEMENT'
                       ' WHEN (current_setting(''distributed.guarded'', true) IS DISTINCT FROM %L)'
                       ' EXECUTE FUNCTION public.distributed_guard(%L)', one.shard, anchor, anchor);
    END LOOP;
    -- What a later release has a trigger do, it does on shards, too. Their names are as Citus has them.
    FOR one IN
        SELECT t.definition, t.name AS trigger, t.table_name, s.shardid
          FROM jsonb_to_recordset(p_triggers) AS t(table_name text, name text, definition text)
          JOIN pg_dist_shard s ON s.logicalrelid = t.table_name::regclass
         WHERE s.shardid = get_shard_id_for_distribution_column(s.logicalrelid, p_group)
    LOOP
        EXECUTE replace(replace(one.definition,
                format('CREATE TRIGGER %I ', one.trigger), format('CREATE OR REPLACE TRIGGER %I ', one.trigger || '_' || one.shardid)),
                format(' ON public.%I ', one.table_name), format(' ON public.%I ', one.table_name || '_' || one.shardid));
    END LOOP;
    -- A shard has no sequence. Each group counts in steps of all groups that can be, on from the highest number that it has or that there was on
    -- one server: so numbers are unique over all groups, and never fall in one, wherever it is moved.
    FOR one IN
        SELECT c.relname AS name, a.attname AS column_name FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
          JOIN pg_dist_partition p ON p.logicalrelid = c.oid AND p.partmethod = 'h'
         WHERE a.attidentity <> '' AND NOT a.attisdropped
    LOOP
        EXECUTE format('SELECT COALESCE(max(%I), 0) FROM %I.%I', one.column_name, part, one.name) INTO highest;
        sequence := format('%I.%I', part, one.name || '_' || one.column_name || '_seq');
        EXECUTE format('CREATE SEQUENCE %s INCREMENT 1024 START %s', sequence,
                       (SELECT (greatest(highest, g.above) / 1024 + 1) * 1024 + g.place FROM public.distributed_group g WHERE g.number = p_group));
        EXECUTE format('ALTER VIEW %I.%I ALTER COLUMN %I SET DEFAULT nextval(%L)', part, one.name, one.column_name, sequence);
    END LOOP;
    PERFORM set_config('search_path', 'public', true);
    FOR one IN
        SELECT p.proname AS name, pg_get_functiondef(p.oid) AS definition FROM pg_proc p
         WHERE p.pronamespace = 'public'::regnamespace AND p.prokind = 'f' AND p.proname NOT LIKE 'distributed\_%'
           AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e') ORDER BY p.oid
    LOOP
        PERFORM set_config('search_path', format('%I, node, public', part), true);
        EXECUTE replace(one.definition, 'FUNCTION public.', format('FUNCTION %I.', part));
        IF one.name = ANY (p_entries) THEN
            EXECUTE format('ALTER FUNCTION %I.%I SET search_path = %I, node, public', part, one.name, part);
        END IF;
    END LOOP;
END $$;
