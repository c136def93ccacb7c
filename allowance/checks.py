"""System checks: an incomplete configuration is refused at the start, with the name of the variable."""

from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004 - Django's name for it

from chains.catalogue import ServedChain
from foundation.environment.connections import host_of

_ENOUGH_HOSTS = 2


@register
def check_configuration(**_options: Any) -> list[CheckMessage]:
    """allowance.E001: a variable is missing or malformed."""
    return [
        Error(problem, id="allowance.E001", hint="See docs/operate/settings.md. EMBEDDED=true starts what has no URL.")
        for problem in settings.CONFIGURATION_PROBLEMS
    ]


@register(deploy=True)
def check_minimums(**_options: Any) -> list[CheckMessage]:
    """allowance.W002: an agent could spend more of the operator's gas than it moves."""
    if settings.CONFIGURATION_PROBLEMS:
        return []
    return [
        Warning(
            f"{served.chain.alias} pays however small amounts of {', '.join(missing)}.",
            id="allowance.W002",
            hint=f"Each payment costs gas. Set {served.chain.variables}_MIN_PAYMENT, such as {missing[0]}=0.01.",
        )
        for served in settings.CHAINS.values()
        if not served.chain.is_test
        and (missing := [asset for asset in served.tokens if asset not in {*served.minimums, *served.left_out}])
    ]


@register(deploy=True)
def check_nodes(**_options: Any) -> list[CheckMessage]:
    """allowance.W001: all nodes of a chain with real money are at one host."""
    if settings.CONFIGURATION_PROBLEMS:
        return []
    return [
        Warning(
            f"{served.chain.variables}_RPC_URLS names nodes of one host only. What it says is then believed on its "
            "word alone: that a deposit came and is final, that a payment was paid or never can be, what the escrow "
            "holds and whether anything left it. Whoever runs it, or takes it over, can have deposits credited that "
            "nobody made, and payments given back that were paid.",
            id="allowance.W001",
            hint="Name nodes of two providers or more, or put allowance.W001 into SILENCED_SYSTEM_CHECKS.",
        )
        for served in settings.CHAINS.values()
        if _is_believed_alone(served)
    ]


def _is_believed_alone(served: ServedChain) -> bool:
    return not served.chain.is_test and len({host_of(url) for url in served.rpc_urls}) < _ENOUGH_HOSTS


@register(deploy=True)
def check_as_doctor_does(**_options: Any) -> list[CheckMessage]:
    """allowance.E002: two keys are one. W003: a node elsewhere without TLS. W004: a name that resembles one of ours."""
    from operators.doctor.of_release import LOOKS  # noqa: PLC0415 - servers check, too, and never need a doctor

    if settings.CONFIGURATION_PROBLEMS:
        return []
    return [
        (Error if check.startswith("allowance.E") else Warning)(
            f"{found.subject}: {found.says}", id=check, hint=found.mend
        )
        for check, look in LOOKS.items()
        for found in look()
        if found.is_trouble
    ]
