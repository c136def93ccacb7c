-- As in deliveries.sql, for the events of agents' owners. Their endpoint is there: it has the URL, or no event is written.
CREATE OR REPLACE FUNCTION services_deliver_agent_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO services_webhookdelivery (event_id, endpoint_id, state, attempts, is_by_hand, next_attempt_at)
         VALUES (NEW.id, '@' || NEW.agent_id, 'waiting', 0, NEW.type = 'webhook.test', NEW.created_at);
    RETURN NULL;
END $$;

CREATE OR REPLACE TRIGGER deliver_to_agent AFTER INSERT ON services_webhookevent
    FOR EACH ROW WHEN (NEW.agent_id IS NOT NULL) EXECUTE FUNCTION services_deliver_agent_event();
