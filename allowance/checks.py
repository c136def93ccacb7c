"""System checks: a configuration that cannot work is refused at the start, by the name of the variable."""

from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register
from django.core.exceptions import ImproperlyConfigured


@register
def check_configuration(**_options: Any) -> list[CheckMessage]:
    """allowance.E001: a variable is missing or malformed."""
    return [
        Error(problem, id="allowance.E001", hint="See the README, Settings. EMBEDDED=true starts what has no URL.")
        for problem in settings.CONFIGURATION_PROBLEMS
    ]


@register(Tags.security, deploy=True)
def check_minimums(**_options: Any) -> list[CheckMessage]:
    """allowance.W002: an agent could spend more of the operator's gas than it moves."""
    return [
        checks.Warning(
            f"{served.chain.alias} pays however small amounts of {', '.join(missing)}.",
            id="allowance.W002",
            hint=f"Each payment costs gas. Set {served.chain.variables}_MIN_PAYMENT, such as {missing[0]}=0.01.",
        )
        for served in settings.CHAINS.values()
        if not served.chain.is_test and (missing := [asset for asset in served.tokens if asset not in served.minimums])
    ]


def refuse_incomplete_configuration() -> None:
    """Stop a server process that management commands' checks do not reach.

    Raises:
        ImproperlyConfigured: names each variable that is missing or malformed.
    """
    if settings.CONFIGURATION_PROBLEMS:
        raise ImproperlyConfigured(" ".join(settings.CONFIGURATION_PROBLEMS))
