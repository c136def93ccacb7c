"""Limits as texts, each by its name: as changes carry them, and as commands and files have them.

An optional limit is named by its field. Its text `none`, or None where it is an argument of a change, means that there
is to be no such limit; one that is not named stays as it is.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from foundation.kernel.assets import Asset
from foundation.kernel.errors import OperationRefused
from foundation.kernel.money import AmountError, format_amount, parse_amount
from policy.limits import Limits
from policy.more_limits import NO_MORE, PARTS, LimitPart
from staff.kinds import Argument

NONE = "none"
_AMOUNTS = {
    "max_per_payment": "Limit of a single payment.",
    "daily_limit": "Limit of any 24 hours.",
    "weekly_limit": "Limit of any 7 days.",
}
_SERVICES = "The ids of the payees that it may pay, with commas between them; or * for all."


def arguments_of_new() -> dict[str, Argument]:
    """Give the arguments of a change that makes an agent, of its limits."""
    more = {part.field: Argument(_says(part), text_or_none, is_needed=False) for part in PARTS}
    amounts = {name: Argument(says) for name, says in _AMOUNTS.items()}
    return {**amounts, "allowed_services": Argument(_SERVICES, _services), **more}


def arguments_of_known() -> dict[str, Argument]:
    """Give those of a change of an agent that there is, of which none is needed."""
    return {name: replace(one, is_needed=False) for name, one in arguments_of_new().items()}


def arguments_without_parent() -> dict[str, Argument]:
    """Give those of a change of a template or of limits that are tried, which leave each agent under its parent."""
    return {name: one for name, one in arguments_of_known().items() if name != "parent"}


def write_limits(limits: Limits) -> dict[str, Any]:
    """Write limits as a change carries them, all of them."""
    more = {part.field: getattr(limits.more, part.field) for part in PARTS}
    return {
        **{name: format_amount(getattr(limits, name)) for name in _AMOUNTS},
        "allowed_services": None if limits.allowed_services is None else list(limits.allowed_services),
        **{part.field: None if more[part.field] is None else part.kind.write(more[part.field]) for part in PARTS},
    }


def write_without_parent(limits: Limits) -> dict[str, Any]:
    """Write limits as a change carries them that leaves each agent under its parent."""
    return {name: text for name, text in write_limits(limits).items() if name != "parent"}


def are_same(one: Limits, other: Limits) -> bool:
    """Tell whether two policies say the same, in whatever order they name payees."""
    return _in_order(one) == _in_order(other)


def _in_order(limits: Limits) -> dict[str, Any]:
    written = write_limits(limits)
    allowed = limits.allowed_services
    return {**written, "allowed_services": None if allowed is None else sorted(set(allowed))}


def text_or_none(text: str) -> str | None:
    """Give the text of an optional limit as a change carries it."""
    return None if text == NONE else text


def names_a_limit(arguments: Mapping[str, Any]) -> bool:
    """Tell whether a change names any limit."""
    return any(name in arguments for name in arguments_of_new())


def read_limits(arguments: Mapping[str, Any], asset: Asset, present: Limits | None = None) -> Limits:
    """Read the limits that a change asks for. What it does not name is that of `present`; None: of a new agent.

    Raises:
        OperationRefused: names a limit that is not of its form.
    """
    asked = {name: _read_amount(name, arguments[name], asset) for name in _AMOUNTS if name in arguments}
    if "allowed_services" in arguments:
        asked["allowed_services"] = arguments["allowed_services"]
    more = replace(NO_MORE if present is None else present.more, **read_optional(arguments, asset))
    return Limits(**asked, more=more) if present is None else replace(present, **asked, more=more)


def read_optional(
    texts: Mapping[str, Any], asset: Asset, *, name_of: Callable[[LimitPart], str] = attrgetter("field")
) -> dict[str, Any]:
    """Read those of the optional limits that are among these texts, by field. `name_of`: as an error names one.

    Raises:
        OperationRefused: one is not of its form.
    """
    found = {}
    for part in PARTS:
        if part.field in texts:
            text = texts[part.field]
            try:
                found[part.field] = None if text is None else part.kind.read(text, asset)
            except ValueError as error:
                raise OperationRefused(f"{name_of(part)}: {error}") from error
    return found


def _says(part: LimitPart) -> str:
    return f"{part.help} {part.kind.form}, or {NONE} for no such limit."


def _services(text: str) -> list[str] | None:
    return None if text == "*" else [one for one in text.split(",") if one]


def _read_amount(name: str, text: str, asset: Asset) -> Any:
    try:
        return parse_amount(text, asset, allow_zero=True)
    except AmountError as error:
        raise OperationRefused(f"{name}: {error}") from error
