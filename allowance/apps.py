"""The Django app."""

from django.apps import AppConfig


class AllowanceConfig(AppConfig):
    name = "allowance"

    def ready(self) -> None:
        # Importing registers the checks, and makes every process send tasks to the configured broker.
        from allowance import celery, checks  # noqa: F401 - only once apps are loaded
