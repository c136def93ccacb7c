"""The console's pages of the audit, of requests and of people. Django's autodiscovery imports them to register them."""

from staff.admin import audit, people, requests

__all__ = ["audit", "people", "requests"]
