"""The Django app."""

from pathlib import Path

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from foundation.installed_sql import install_sql

FILES = (Path(__file__).parent / "sql" / "append_only.sql",)
TABLES = ("staff_auditentry",)


class StaffConfig(AppConfig):
    name = "staff"
    verbose_name = "Staff"

    def ready(self) -> None:
        from staff.people_requests import register_kinds
        from staff.sign_in import recording

        post_migrate.connect(self._install_sql, sender=self)
        recording.connect()
        register_kinds()

    def _install_sql(self, using: str, **_options: object) -> None:
        install_sql(FILES, TABLES, using)
