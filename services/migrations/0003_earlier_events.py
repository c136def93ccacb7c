"""Deliver what was written before there was delivery, and give each registered webhook its endpoint.

Payments go on meanwhile: they wait for whoever writes an endpoint, so the endpoints are committed before the rest.
"""

from django.db import migrations

GIVE_ENDPOINTS = """
INSERT INTO services_webhookendpoint (service_id, disabled_reason)
SELECT id, '' FROM services_service
 WHERE webhook_url IS NOT NULL OR id IN (SELECT service_id FROM services_webhookevent)
    ON CONFLICT DO NOTHING
"""
GIVE_DELIVERIES = """
INSERT INTO services_webhookdelivery (event_id, endpoint_id, state, attempts, is_by_hand, next_attempt_at)
SELECT id, service_id, 'waiting', 0, false, created_at FROM services_webhookevent
    ON CONFLICT DO NOTHING
"""


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("services", "0002_webhook_deliveries")]
    operations = [
        migrations.RunSQL(GIVE_ENDPOINTS, migrations.RunSQL.noop),
        migrations.RunSQL(GIVE_DELIVERIES, migrations.RunSQL.noop),
    ]
