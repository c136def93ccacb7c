"""The Django app."""

from django.apps import AppConfig


class BackofficeConfig(AppConfig):
    name = "backoffice"
    verbose_name = "Back office"

    def ready(self) -> None:
        from backoffice.list_sums import sum_up_entries, sum_up_payments
        from backoffice.paid_services import find_paid
        from services.paid import tell_how_to_find_paid
        from staff.list_sums import tell_how_to_sum_up

        tell_how_to_find_paid(find_paid)
        tell_how_to_sum_up("ledger.logentry", sum_up_entries)
        tell_how_to_sum_up("payments.payment", sum_up_payments)
