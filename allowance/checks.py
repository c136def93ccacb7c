"""System checks: a configuration that cannot work is refused at the start, by the name of the variable."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.core.exceptions import ImproperlyConfigured


@register
def check_configuration(**_options: Any) -> list[CheckMessage]:
    """allowance.E001: a variable is missing or malformed."""
    return [
        Error(problem, id="allowance.E001", hint="See the README, Settings. EMBEDDED=true starts what has no URL.")
        for problem in settings.CONFIGURATION_PROBLEMS
    ]


def refuse_incomplete_configuration() -> None:
    """Stop a server process that management commands' checks do not reach.

    Raises:
        ImproperlyConfigured: names each variable that is missing or malformed.
    """
    if settings.CONFIGURATION_PROBLEMS:
        raise ImproperlyConfigured(" ".join(settings.CONFIGURATION_PROBLEMS))
