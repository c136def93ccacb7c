-- How a settlement came to its end is evidence, too.
CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payments_transition
    FOR EACH STATEMENT EXECUTE FUNCTION ledger_refuse_change();
