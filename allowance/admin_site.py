"""Django's admin, as an app of this project."""

from django.contrib.admin.apps import AdminConfig, SimpleAdminConfig

from allowance.boot import process_types
from foundation.environment.process_types import ProcessType


class ConsoleConfig(AdminConfig):
    """Django's admin. Workers load its pages only with `allowance.urls`, once something needs a link."""

    def ready(self) -> None:
        if process_types() & {ProcessType.WEB, ProcessType.COMMAND}:
            super().ready()
        else:
            SimpleAdminConfig.ready(self)
