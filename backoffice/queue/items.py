"""A line of the work queue."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from urllib.parse import urlencode

from django.contrib.admin.utils import quote
from django.urls import reverse

from foundation.console.figures import show_amount


class Severity(StrEnum):
    """How much it matters, the worst first; also the name of the notice's look."""

    ERROR = "error"  # money is wrong, or nobody is paid
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Item:
    """An errand for whoever has the `permission`: `count` things, in a `sentence`, with the page that deals with them.

    `since`: the moment from which the oldest of them waits; None: that is not known. `subject` tells several errands of
    one kind apart. Who lacks the permission `acts` can only look, and the button says so.
    """

    kind: str
    count: int
    sentence: str
    url: str
    button: str
    severity: Severity
    permission: str
    since: datetime | None = None
    subject: str = ""
    acts: str = ""


def list_page(model: str, **query: str) -> str:
    """Address a list of the console (`services_service`), filtered."""
    address = reverse(f"admin:{model}_changelist")
    return f"{address}?{urlencode(query)}" if query else address


def row_page(model: str, key: object) -> str:
    """Address the page of one row."""
    return reverse(f"admin:{model}_change", args=[quote(str(key))])


def numbered(count: int, one: str, many: str) -> str:
    """Write a number before a noun and its verb: 1 deposit waits, 2 deposits wait."""
    return f"{count:,} {one if count == 1 else many}"


def add_up(sums: Mapping[str, Decimal]) -> str:
    """Write amounts of several assets in one line."""
    return ", ".join(f"{show_amount(amount)} {asset}" for asset, amount in sorted(sums.items()))


def named(names: list[str], most: int = 3) -> str:
    """Name the first few of many."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
