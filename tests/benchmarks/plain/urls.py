"""The one address of the plain version."""

from django.urls import path

from tests.benchmarks.plain.views import PaymentView

urlpatterns = [path("v1/payments/request", PaymentView.as_view())]

handler404 = "allowance.error_pages.not_found"
handler500 = "allowance.error_pages.server_error"
