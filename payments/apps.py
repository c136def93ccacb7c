"""The Django app."""

from pathlib import Path
from typing import Any

from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate

from allowance.installed_sql import install_sql

SQL = Path(__file__).parent / "sql"
FILES = (SQL / "lock_and_read.sql", SQL / "record.sql", SQL / "append_only.sql")
TABLES = ("payments_payment", "payments_settlement", "payments_relayer", "payments_transition", "services_service")


class PaymentsConfig(AppConfig):
    name = "payments"
    verbose_name = "Payments"

    def ready(self) -> None:
        # After the last of the apps below: the triggers call a function of the ledger's.
        post_migrate.connect(self._install_sql, sender=apps.get_app_config("services"))

    def _install_sql(self, using: str, **_options: Any) -> None:
        install_sql(FILES, TABLES, using)
