"""`manage.py webhooks [secret SERVICE | reseal]`."""

from dataclasses import asdict
from datetime import datetime
from typing import Any

from django.core.management.base import CommandParser

from foundation.commands import AUTHOR, JsonCommand, add_reason
from foundation.kernel.times import format_instant, utc_now
from services.management.secret_output import write_secrets
from services.models import agent_of_endpoint
from services.webhooks.operations import reseal_secrets, reveal_secrets
from services.webhooks.queries import OVERDUE_AFTER, EndpointStatus, read_statuses, read_totals

_FORM = "{:<8}  {:>7}  {:>6}  {:>10}  {}"
_UNITS = ((86_400, "days"), (3600, "h"), (60, "min"), (1, "s"))
_HEAD = ("state", "waiting", "failed", "oldest", "receiver")


class Command(JsonCommand):
    help = (
        "Show how webhooks are delivered: each endpoint, those first that need attention, how many of its deliveries "
        "wait or have failed, and how old the oldest waiting one is. `webhooks secret` shows a signing secret, "
        "and records that. `webhooks reseal` encrypts the secrets under a new WEBHOOK_SECRETS_KEY. The Python client "
        "has a small receiver that shows developers what arrives: python -m allowance_client listen --help."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="secret | reseal")
        text = "Show the secrets that sign the webhooks of an endpoint now, the current one first; this is recorded."
        secret = actions.add_parser("secret", help=text, description=text)
        secret.add_argument("service", help="The payee's id, or @ and the agent's.")
        add_reason(secret)
        add_reason(
            actions.add_parser(
                "reseal",
                help="Encrypt the signing secrets under the newest WEBHOOK_SECRETS_KEY.",
                description="Encrypt all signing secrets under WEBHOOK_SECRETS_KEY, those too that an earlier key "
                "opens. Then WEBHOOK_SECRETS_KEY_FALLBACKS is needed no more. Prints how many were encrypted anew.",
            )
        )

    def perform(self, **options: Any) -> dict[str, Any]:
        if options["action"] == "secret":
            return self._show_secrets(options["service"], options["reason"])
        if options["action"] == "reseal":
            return {"resealed": reseal_secrets(by=AUTHOR, reason=options["reason"])}
        now = utc_now()
        statuses, totals = read_statuses(), read_totals(now)
        if statuses:
            self.stdout.write(_FORM.format(*_HEAD))
        for status in statuses:
            self.stdout.write(
                _FORM.format(
                    status.state, status.waiting, status.failed, _age(status.oldest_waiting_at, now), _describe(status)
                )
            )
        self.stdout.write(
            f"In all: {totals.waiting} waiting, {totals.failed} failed; "
            f"{totals.failing} endpoints failing, {totals.disabled} disabled."
        )
        if totals.overdue:
            minutes = int(OVERDUE_AFTER.total_seconds() / 60)
            self.stdout.write(
                f"{totals.overdue} of them due for more than {minutes} minutes: is the `webhooks` process running?"
            )
        return {"totals": asdict(totals), "endpoints": [_present(status) for status in statuses]}

    def _show_secrets(self, service_id: str, reason: str) -> dict[str, Any]:
        shown = reveal_secrets(service_id, by=AUTHOR, reason=reason)
        return {"service": service_id, "secrets": write_secrets(self, shown)}


def _describe(status: EndpointStatus) -> str:
    return "  ".join(part for part in (status.endpoint_id, status.url, status.reason) if part)


def _age(moment: datetime | None, now: datetime) -> str:
    """Write how long ago something was, in its largest unit."""
    if moment is None:
        return "-"
    seconds = max(0, int((now - moment).total_seconds()))
    count, unit = next(((seconds // size, unit) for size, unit in _UNITS if seconds >= size), (0, "s"))
    return f"{count} {unit}"


def _present(status: EndpointStatus) -> dict[str, Any]:
    return {
        "service": status.endpoint_id if (agent_id := agent_of_endpoint(status.endpoint_id)) is None else None,
        "agent": agent_id,
        "url": status.url,
        "state": status.state,
        "reason": status.reason,
        "waiting": status.waiting,
        "failed": status.failed,
        "oldestWaitingAt": status.oldest_waiting_at and format_instant(status.oldest_waiting_at),
    }
