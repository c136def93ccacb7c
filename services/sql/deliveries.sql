-- An event without a delivery cannot exist: whoever writes the event, in whatever transaction, the delivery is part of it.
CREATE OR REPLACE FUNCTION services_deliver_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO services_webhookendpoint (service_id, disabled_reason) VALUES (NEW.service_id, '')
        ON CONFLICT DO NOTHING;
    -- What staff send to try an endpoint out is not held against it.
    INSERT INTO services_webhookdelivery (event_id, endpoint_id, state, attempts, is_by_hand, next_attempt_at)
         VALUES (NEW.id, NEW.service_id, 'waiting', 0, NEW.type = 'webhook.test', NEW.created_at);
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER deliver AFTER INSERT ON services_webhookevent
    FOR EACH ROW WHEN (NEW.service_id IS NOT NULL) EXECUTE FUNCTION services_deliver_event();
