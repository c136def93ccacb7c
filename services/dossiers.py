"""All that a person needs to know to decide on payees. As many queries for many services as for one."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Min

from chains.catalogue import find_chain
from foundation.console.figures import show_amount
from foundation.kernel.times import utc_now
from policy.models import ApiKey
from services.differences import Difference, compare
from services.known_payees import Lookalike, compare_addresses, find_lookalikes, find_same_address
from services.models import RegistrationRecord, Service, ServiceDecision, ServiceStatus
from services.paid import Paid, find_paid
from services.webhooks.url_checks import host_of
from staff.models import ChangeRequest, RequestState

# The kind of change that an approval is.
APPROVE = "service.approve"


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that a registration says: what was approved last, what is asked now, and the difference."""

    label: str
    difference: Difference
    is_code: bool = True


@dataclass(frozen=True)
class Dossier:
    """A service, its present registration, and what is known beside.

    `key`: who registered it, in words. `approved`: the last approval, if there was one. `is_history_known`: whether all
    its registrations were kept. `requests`: approvals that wait for a second person.
    """

    service: Service
    record: RegistrationRecord | None
    key: str
    approved: ServiceDecision | None
    is_history_known: bool
    same_address: Sequence[Service]
    lookalikes: Sequence[Lookalike]
    paid: Sequence[Paid]
    requests: Sequence[ChangeRequest]

    @cached_property
    def lines(self) -> list[Line]:
        """What was approved last beside what is asked now."""
        new = self.service
        before = self.approved.registration if self.approved else new
        return [
            Line("Name", compare(before.name, new.name), is_code=False),
            Line("Chain", compare(name_chain(before.chain), name_chain(new.chain)), is_code=False),
            Line("Address", compare_addresses(before, new)),
            Line("Asset", compare(before.asset, new.asset), is_code=False),
            Line("Webhook URL", compare(before.webhook_url or "none", new.webhook_url or "none")),
        ]

    @property
    def host_in_words(self) -> str:
        """Tell from which host to which the webhook moves since the last approval; "" if it stays."""
        if self.approved is None:
            return ""
        old, new = host_of(self.approved.registration.webhook_url), host_of(self.service.webhook_url)
        return (
            "" if old == new else f"{new or 'none'} instead of {old or 'none'}: a new secret signs what is sent there"
        )

    @property
    def approved_in_words(self) -> str:
        """Tell who approved it last, and when."""
        if self.approved is None:
            return "never" if self.is_history_known else "not known: registrations were not kept then"
        return f"{self.approved.decided_at:%Y-%m-%d %H:%M} UTC by {self.approved.decided_by or 'somebody'}"

    @property
    def paid_in_words(self) -> str:
        """Tell what was paid to it so far."""
        sums = (
            f"{paid.count:,} {'payment' if paid.count == 1 else 'payments'}, {show_amount(paid.amount)} {paid.asset}"
            for paid in self.paid
        )
        return "; ".join(sums) or "none"


def find_dossiers(services: Sequence[Service]) -> list[Dossier]:
    """Find the dossiers of services, in their order."""
    ids = [service.pk for service in services]
    newest = _newest(RegistrationRecord.objects.filter(service__in=ids).order_by("service_id", "-id"))
    approvals = _find_approvals(ids)
    oldest = dict(
        RegistrationRecord.objects.filter(service__in=ids).order_by().values_list("service").annotate(Min("number"))
    )
    keys = name_keys(record.registered_by for record in newest.values())
    same, lookalikes, paid = find_same_address(services), find_lookalikes(services), find_paid(ids)
    waiting = ChangeRequest.objects.filter(state=RequestState.WAITING, expires_at__gt=utc_now())
    requests = list(waiting.filter(kind=APPROVE, subject_type="service", subject__in=ids).order_by("id"))
    return [
        Dossier(
            service,
            record := newest.get(service.pk),
            keys[record.registered_by] if record else name_key(""),
            approvals.get(service.pk),
            oldest.get(service.pk, service.registration) == 1,
            same[service.pk],
            lookalikes[service.pk],
            paid.get(service.pk, ()),
            [request for request in requests if request.subject == service.pk],
        )
        for service in services
    ]


def name_chain(caip2: str) -> str:
    """Name a chain as people do, and by its CAIP-2 id, which is not to be mistaken."""
    known = find_chain(caip2)
    return f"{known.alias} ({caip2})" if known else caip2


def name_keys(key_ids: Iterable[str]) -> Mapping[str, str]:
    """Name API keys by their ids, as people know them."""
    ids = set(key_ids)
    names = dict(ApiKey.objects.filter(pk__in=ids - {""}).values_list("pk", "name"))
    return {key_id: name_key(key_id, names.get(key_id, "")) for key_id in ids}


def name_key(key_id: str, name: str = "") -> str:
    """Name one API key."""
    if not key_id:
        return "not known"
    return f"“{name}” ({key_id})" if name else key_id


def _newest(records: Iterable[RegistrationRecord]) -> dict[str, RegistrationRecord]:
    return {record.service_id: record for record in records.distinct("service_id")}  # type: ignore[attr-defined]


def _find_approvals(ids: Sequence[str]) -> dict[str, ServiceDecision]:
    """Find the last approval of each service."""
    approvals = ServiceDecision.objects.filter(status=ServiceStatus.APPROVED, registration__service__in=ids)
    last = approvals.order_by("registration__service_id", "-id").distinct("registration__service_id")
    return {decision.registration.service_id: decision for decision in last.select_related("registration")}
