"""Every address of the product. Both forms of an address answer, with and without a trailing slash.

The metrics name each answer by its route here.
"""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path, re_path
from django.views.generic import RedirectView

from allowance.probes import PROBES
from foundation.api.openapi_views import show_document, show_swagger
from foundation.api.page_views import hand_out_client, llms_txt, show_page
from ledger.views import BudgetViewSet, LogViewSet
from payments.api.evaluations import EvaluationViewSet
from payments.api.read_views import PaymentProofViewSet, PaymentReadViewSet
from payments.api.views import PaymentViewSet
from payments.api.x402 import DemandedPaymentViewSet
from policy.views import MeViewSet, allowance_keys
from services.views import ServiceViewSet

admin.autodiscover()  # a worker has not done so at its start
admin.site.site_header = "Allowance"
admin.site.site_title = "Allowance console"
admin.site.index_title = "Console"


urlpatterns: list[URLPattern | URLResolver] = [
    re_path(r"^v1/payments/request/?$", PaymentViewSet.as_view({"post": "create"})),
    re_path(r"^v1/payments/evaluate/?$", EvaluationViewSet.as_view({"post": "create"})),
    re_path(r"^v1/payments/x402/?$", DemandedPaymentViewSet.as_view({"post": "create"})),
    re_path(r"^v1/payments/?$", PaymentReadViewSet.as_view({"get": "list"})),
    re_path(r"^v1/payments/(?P<payment_id>[^/]+)/proof/?$", PaymentProofViewSet.as_view({"get": "retrieve"})),
    re_path(r"^v1/payments/(?P<payment_id>[^/]+)/?$", PaymentReadViewSet.as_view({"get": "retrieve"})),
    # An agent id may hold a slash; what is asked for may hold anything, also a line feed.
    re_path(r"^v1/agents/(?P<agent_id>(?s:.+))/budget/?$", BudgetViewSet.as_view({"get": "retrieve"})),
    re_path(r"^v1/services/?$", ServiceViewSet.as_view({"get": "list", "post": "create"})),
    # As an agent's, and it may end with a slash, too: the view finds out.
    re_path(r"^v1/services/(?P<service_id>(?s:.+))$", ServiceViewSet.as_view({"get": "retrieve"})),
    re_path(r"^v1/logs/?$", LogViewSet.as_view({"get": "list"})),
    re_path(r"^v1/logs/(?P<log_id>[^/]+)/?$", LogViewSet.as_view({"get": "retrieve"})),
    re_path(r"^v1/me/?$", MeViewSet.as_view({"get": "retrieve"})),
    re_path(r"^v1/openapi\.json/?$", show_document, name="openapi"),
    re_path(r"^v1/docs/?$", show_swagger),
    re_path(r"^v1/docs/(?P<page>[^\s]+?)/?$", show_page),
    re_path(r"^v1/clients/(?P<file>[^/]+)/?$", hand_out_client),
    re_path(r"^llms\.txt/?$", llms_txt),
    re_path(r"^\.well-known/allowance-keys\.json/?$", allowance_keys),
    # `allowance.probes` answers these before Django comes here.
    *(re_path(rf"^{address.removeprefix('/')}/?$", probe) for address, probe in PROBES.items()),
    path("console", RedirectView.as_view(url="/console/")),
    path("console/", include("staff.urls")),
    path("console/", include("backoffice.urls")),
    path("console/", admin.site.urls),
    # Django's own catches no address with the end of a line in it: who is not logged in is sent to log in there, too.
    re_path(r"^console/(?P<url>(?s:.*))\Z", admin.site.admin_view(admin.site.catch_all_view)),
]

handler400 = "foundation.error_pages.bad_request"
handler403 = "foundation.error_pages.permission_denied"
handler404 = "foundation.error_pages.not_found"
handler500 = "foundation.error_pages.server_error"
