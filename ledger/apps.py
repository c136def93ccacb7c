"""The Django app."""

from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate

from foundation.installed_sql import install_sql

SQL = Path(__file__).parent / "sql"
FILES = (SQL / "append_only.sql", SQL / "windows.sql", SQL / "levels.sql", SQL / "tallies.sql", SQL / "budgets.sql")
TABLES = (
    "policy_agent",
    "ledger_logentry",
    "ledger_balancemovement",
    "ledger_clockrepair",
    "policy_policyrevision",
    "ledger_tally",
    "ledger_tallymark",
    "ledger_hold",
    "ledger_levelpayment",
)


class LedgerConfig(AppConfig):
    name = "ledger"
    verbose_name = "Ledger"

    def ready(self) -> None:
        post_migrate.connect(self._install_sql, sender=self)

    def _install_sql(self, using: str, **_options: Any) -> None:
        install_sql(FILES, TABLES, using)
