"""The console's pages of services and webhooks. Django imports this module to have them registered."""

from django.contrib import admin

from services.admin.attempts import AttemptAdmin
from services.admin.deliveries import DeliveryAdmin
from services.admin.endpoints import EndpointAdmin
from services.admin.payees import ServiceAdmin, chain
from services.admin.requested import look_at_approval
from services.approvals import KIND
from services.models import Service, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from staff.admin.requests import looks

__all__ = ["chain"]

admin.site.register(Service, ServiceAdmin)
admin.site.register(WebhookEndpoint, EndpointAdmin)
admin.site.register(WebhookDelivery, DeliveryAdmin)
admin.site.register(WebhookAttempt, AttemptAdmin)
looks[KIND] = look_at_approval
