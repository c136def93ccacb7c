"""People who meet the back office's pages."""

from tests.foundation.console.conftest import auditor, finance, make_person, superuser

__all__ = ["auditor", "finance", "make_person", "superuser"]
