-- Turn the tables of one PostgreSQL into those of a cluster, in one transaction. `%(groups)s` of them; see places.py for `of_groups`.

-- The groups have the first numbers whose hashes are in different shards: so each group has a shard of its own.
-- Numbers that are given out from now on are `above` all that were before, in any table.
CREATE TABLE distributed_group (number int PRIMARY KEY, place int NOT NULL UNIQUE, above bigint NOT NULL DEFAULT 0);
INSERT INTO distributed_group (number, place)
     SELECT DISTINCT ON (place) number, place
       FROM (SELECT n AS number, least((hashint4(n)::bigint + 2147483648) / (4294967296 / %(groups)s), %(groups)s - 1)::int AS place
               FROM generate_series(0, 100000) AS n) AS hashed
      ORDER BY place, number;
CREATE TABLE distributed_agent (agent_id varchar(255) COLLATE "C" PRIMARY KEY, agent_group int NOT NULL REFERENCES distributed_group);
-- It is empty, and of groups: foundation/groups/together.py says what for.
CREATE TABLE distributed_together (kind int, agent_group int NOT NULL);
CREATE VIEW distributed_place AS
    SELECT g.number, g.place, n.nodename AS host, n.nodeport AS port
      FROM distributed_group g
      JOIN pg_dist_placement p ON p.shardid = get_shard_id_for_distribution_column('policy_agent', g.number)
      LEFT JOIN pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary' AND n.isactive;

-- What somebody alone may do on all nodes is locked on each of them: a change of a row here takes its lock (foundation/database.py has the
-- kinds), wherever the row is. It lasts until the change is committed on that node, even if that one goes away in between.
CREATE TABLE distributed_lock (kind int PRIMARY KEY, name text NOT NULL);
INSERT INTO distributed_lock VALUES (2, '');
-- What somebody alone may do for all agents is locked on the coordinator, in the same way.
CREATE TABLE distributed_lock_above (kind int PRIMARY KEY, name text NOT NULL);
INSERT INTO distributed_lock_above VALUES (4, ''), (6, ''), (15, '');
CREATE FUNCTION distributed_take_lock() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(NEW.kind, hashtext(NEW.name));
    RETURN NEW;
END $$;
CREATE TRIGGER take_lock BEFORE UPDATE ON distributed_lock FOR EACH ROW EXECUTE FUNCTION distributed_take_lock();
CREATE TRIGGER take_lock BEFORE UPDATE ON distributed_lock_above FOR EACH ROW EXECUTE FUNCTION distributed_take_lock();
