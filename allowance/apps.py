"""The Django app."""

from django.apps import AppConfig
from django.conf import settings
from django.core.signals import request_started
from django.db.backends.signals import connection_created


class AllowanceConfig(AppConfig):
    name = "allowance"

    def ready(self) -> None:
        from foundation.database_sessions import close_ended_sessions
        from foundation.prepared_statements import allow_preparing
        from foundation.telemetry.errors import report_errors

        if settings.SENTRY_DSN:
            report_errors(settings.SENTRY_DSN, settings.PROCESS)
        connection_created.connect(allow_preparing)
        request_started.connect(close_ended_sessions)
        # Importing registers the checks, and makes every process send tasks to the configured broker.
        from allowance import celery, checks  # noqa: F401 - only once apps are loaded
