"""The addresses of the plain version: it takes the payment requests, everything else is the product's."""

from django.urls import path

from allowance import urls
from tests.benchmarks.plain.views import PaymentView

urlpatterns = [path("v1/payments/request", PaymentView.as_view()), *urls.urlpatterns]

handler404 = urls.handler404
handler500 = urls.handler500
