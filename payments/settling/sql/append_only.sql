-- How a settlement came to its end is evidence, too. Only `manage.py archive` removes it, once it is in a file: see
-- operators/archiving. Never what is young, and never for a role that does not own the table.
CREATE OR REPLACE FUNCTION payments_guard_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('allowance.archiving', true) = 'on'
       AND OLD.created_at < clock_timestamp() - interval '30 days'
       AND pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;

CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR TRUNCATE ON payments_transition
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE OR REPLACE TRIGGER kept_or_archived BEFORE DELETE ON payments_transition
    FOR EACH ROW EXECUTE FUNCTION payments_guard_transition();
