"""The console's pages of services and webhooks. Django imports this module to have them registered."""

from django.contrib import admin

from services.admin.attempts import AttemptAdmin
from services.admin.deliveries import DeliveryAdmin
from services.admin.endpoints import EndpointAdmin
from services.admin.payees import ServiceAdmin, chain
from services.admin.requested import look_at_approval, look_at_tags
from services.approvals import KIND as APPROVAL
from services.models import Service, WebhookAttempt, WebhookDelivery, WebhookEndpoint
from services.tag_changes import KIND as TAGS
from staff.admin.requests import looks

__all__ = ["chain"]

admin.site.register(Service, ServiceAdmin)
admin.site.register(WebhookEndpoint, EndpointAdmin)
admin.site.register(WebhookDelivery, DeliveryAdmin)
admin.site.register(WebhookAttempt, AttemptAdmin)
looks[APPROVAL] = look_at_approval
looks[TAGS] = look_at_tags
