"""The options of commands that set the optional limits of a policy."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from django.core.management.base import CommandParser

from foundation.kernel.assets import Asset
from policy.limit_texts import read_optional, text_or_none
from policy.more_limits import PARTS


def add_limit_options(parser: CommandParser, says: str) -> None:
    """Add an option for each optional limit; `says`: what leaving them out, and `none`, stand for."""
    group = parser.add_argument_group("optional limits", says)
    for part in PARTS:
        group.add_argument(part.option, metavar=part.kind.form, help=part.help)


def named_limits(options: Mapping[str, Any]) -> dict[str, str | None]:
    """Give the texts of the limits that are named, by field; None: there is to be none."""
    return {part.field: text_or_none(options[part.field]) for part in PARTS if options[part.field] is not None}


def read_named_limits(options: Mapping[str, Any], asset: Asset) -> dict[str, Any]:
    """Read the limits that are named, by field.

    Raises:
        OperationRefused: names the option that is not of its form.
    """
    return read_optional(named_limits(options), asset, name_of=attrgetter("option"))
