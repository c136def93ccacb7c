-- What was registered as a payee and what was decided on it is evidence: it stays as it was written.
CREATE OR REPLACE FUNCTION services_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $$;

CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON services_registrationrecord
    FOR EACH STATEMENT EXECUTE FUNCTION services_refuse_change();
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON services_servicedecision
    FOR EACH STATEMENT EXECUTE FUNCTION services_refuse_change();
