-- A leg is live while its transaction is open, or final. One that its transaction goes on without (`skipped`) never is again.
CREATE OR REPLACE FUNCTION payments_is_live(p_state text) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p_state IN ('signed', 'broadcast', 'included', 'final')
$$;

CREATE OR REPLACE FUNCTION payments_follow_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE payments_leg SET is_live = payments_is_live(NEW.state) WHERE tx = NEW.tx AND skipped IS NULL;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER legs_follow AFTER UPDATE OF state ON payments_settlement
    FOR EACH ROW WHEN (payments_is_live(OLD.state) <> payments_is_live(NEW.state))
    EXECUTE FUNCTION payments_follow_transaction();
