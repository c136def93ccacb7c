"""Django behind the front (`allowance.asgi`). Never serve this by itself: a slow client would hold a thread."""

from django.core.wsgi import get_wsgi_application

from allowance.boot import boot, refuse_incomplete

boot()
application = get_wsgi_application()

from allowance.api.wsgi_requests import LenientRequest  # noqa: E402 - the settings come first

application.request_class = LenientRequest
refuse_incomplete()
