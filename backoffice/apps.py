"""The Django app."""

from django.apps import AppConfig


class BackofficeConfig(AppConfig):
    name = "backoffice"
    verbose_name = "Back office"

    def ready(self) -> None:
        from backoffice.paid_services import find_paid
        from services.paid import tell_how_to_find_paid

        tell_how_to_find_paid(find_paid)
