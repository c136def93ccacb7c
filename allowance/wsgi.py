"""The web process: `granian --interface wsgi allowance.wsgi:application`."""

from django.core.wsgi import get_wsgi_application

from allowance.boot import boot

boot()
application = get_wsgi_application()

from allowance.checks import refuse_incomplete_configuration  # noqa: E402 - the settings come first

refuse_incomplete_configuration()
