-- The log is evidence: what was written stays as it was written.
CREATE OR REPLACE FUNCTION ledger_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;

CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_logentry
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_balancemovement
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_clockrepair
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON policy_policyrevision
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();

-- What those above payers count stays as well, but that it was given back, and that it counts earlier once a clock is repaired. Only
-- `manage.py recount` removes it, to count it anew from the log: never for a role that does not own the table.
CREATE OR REPLACE FUNCTION ledger_guard_level() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND current_setting('allowance.recounting', true) = 'on'
       AND pg_has_role(current_user, (SELECT relowner FROM pg_class WHERE oid = TG_RELID), 'USAGE') THEN
        RETURN OLD;
    ELSIF TG_OP = 'UPDATE'
       AND to_jsonb(NEW) - ARRAY['at', 'is_returned', 'carried_until'] = to_jsonb(OLD) - ARRAY['at', 'is_returned', 'carried_until']
       AND (NEW.at = OLD.at OR (NEW.at < OLD.at AND NEW.carried_until >= OLD.at))
       AND (OLD.carried_until IS NULL OR NEW.carried_until >= OLD.carried_until) AND NEW.is_returned >= OLD.is_returned THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;
CREATE OR REPLACE TRIGGER append_only BEFORE TRUNCATE ON ledger_levelpayment
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
CREATE OR REPLACE TRIGGER kept_or_recounted BEFORE UPDATE OR DELETE ON ledger_levelpayment
    FOR EACH ROW EXECUTE FUNCTION ledger_guard_level();
