"""The people of the console."""

from tests.allowance.console.conftest import auditor, finance, make_person, superuser

__all__ = ["auditor", "finance", "make_person", "superuser"]
