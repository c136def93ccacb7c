"""The Django app."""

from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from foundation.installed_sql import install_sql

_SQL = Path(__file__).parent / "sql"
FILES = (_SQL / "deliveries.sql", _SQL / "append_only.sql")
TABLES = (
    "services_webhookevent",
    "services_webhookendpoint",
    "services_webhookdelivery",
    "services_registrationrecord",
    "services_servicedecision",
)


class ServicesConfig(AppConfig):
    name = "services"
    verbose_name = "Services (payees)"

    def ready(self) -> None:
        from services.approvals import KINDS
        from services.owner_webhooks import SET_WEBHOOK
        from services.tag_changes import TAGGING
        from staff.kinds import register

        register(*KINDS, SET_WEBHOOK, TAGGING)
        post_migrate.connect(self._install_sql, sender=self)

    def _install_sql(self, using: str, **_options: Any) -> None:
        install_sql(FILES, TABLES, using)
