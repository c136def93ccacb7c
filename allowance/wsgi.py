"""Django behind the front (`allowance.asgi`). Never serve this by itself: a slow client would hold a thread."""

from django.core.wsgi import get_wsgi_application
from django.urls import resolve

from allowance.boot import boot, refuse_incomplete

boot()
application = get_wsgi_application()

from foundation.api.bodies import LenientRequest  # noqa: E402 - the settings come first
from services.served_chains import served_chains  # noqa: E402 - as LenientRequest

application.request_class = LenientRequest
refuse_incomplete()
# What derives keys is loaded now: the first payment shall not wait for it.
for _chain in served_chains().values():
    _chain.preparer.relayer_address(0)
# The URLconf, too: the front reads it in its event loop, where all others would wait.
resolve("/healthz")
