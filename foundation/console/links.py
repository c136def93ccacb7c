"""Addresses of the console's lists and pages."""

from urllib.parse import urlencode

from django.contrib.admin.utils import quote
from django.urls import reverse


def list_page(model: str, **query: str) -> str:
    """Address a list of the console (`services_service`), filtered."""
    address = reverse(f"admin:{model}_changelist")
    return f"{address}?{urlencode(query)}" if query else address


def row_page(model: str, key: object) -> str:
    """Address the page of one row."""
    return reverse(f"admin:{model}_change", args=[quote(str(key))])
