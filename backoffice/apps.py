"""The Django app."""

from django.apps import AppConfig


class BackofficeConfig(AppConfig):
    name = "backoffice"
    verbose_name = "Back office"

    def ready(self) -> None:
        from backoffice.list_sums import sum_up_entries, sum_up_payments
        from backoffice.paid_services import find_paid
        from services.paid import tell_how_to_find_paid
        from staff.lists import whole_sums

        tell_how_to_find_paid(find_paid)
        whole_sums.update({"ledger.logentry": sum_up_entries, "payments.payment": sum_up_payments})
