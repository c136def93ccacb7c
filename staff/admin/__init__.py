"""The console's pages of the audit and of requests. Django's autodiscovery imports them to register them."""

from staff.admin import audit

__all__ = ["audit"]
