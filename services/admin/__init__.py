"""The console's pages of services and webhooks. Django imports this module to have them registered."""

from django.contrib import admin

from services.admin.attempts import AttemptAdmin
from services.admin.deliveries import DeliveryAdmin
from services.admin.endpoints import EndpointAdmin
from services.admin.payees import ServiceAdmin, chain
from services.models import Service, WebhookAttempt, WebhookDelivery, WebhookEndpoint

__all__ = ["chain"]

admin.site.register(Service, ServiceAdmin)
admin.site.register(WebhookEndpoint, EndpointAdmin)
admin.site.register(WebhookDelivery, DeliveryAdmin)
admin.site.register(WebhookAttempt, AttemptAdmin)
