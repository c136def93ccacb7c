-- The audit says who did what: what was written stays as it was written.
CREATE OR REPLACE FUNCTION staff_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;

CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON staff_auditentry
    FOR EACH STATEMENT EXECUTE FUNCTION staff_refuse_change();
