"""Find payees by their addresses: those that have the same one, and those that have one that is taken for it."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.expressions import RawSQL

from services.differences import Difference, compare
from services.lookalikes import ignores_case, is_lookalike, piece_of_ends, pieces_like
from services.models import RegistrationRecord, Service, ServiceDecision, ServiceStatus

# Each piece is looked up by itself: for many, the planner would compare all of them with every row instead.
_WITH_A_PIECE = """
    SELECT found.id FROM unnest(%s::varchar[]) AS piece,
           LATERAL (SELECT r.id FROM services_registrationrecord r WHERE r.pieces @> ARRAY[piece] OFFSET 0) found
"""


@dataclass(frozen=True, slots=True)
class Lookalike:
    """A payee that was approved, now or earlier, at an address that a person takes for the one that is asked about."""

    record: RegistrationRecord
    difference: Difference

    @property
    def service(self) -> Service:
        return self.record.service

    @property
    def sentence(self) -> str:
        """Name the payee, its state, and what differs."""
        state = self.service.get_status_display().lower()
        is_present = self.record.address == self.service.address
        when = f"now {state}" if is_present else f"approved there earlier, now {state} at another address"
        return f"{self.service.id} ({when}), {self.record.address}: {self.difference.sentence}"


def find_same_address(services: Sequence[Service]) -> dict[str, list[Service]]:
    """Find other payees at the address of each service, by the service's id: an address is the same on EVM chains."""
    found = defaultdict(list)
    for other in Service.objects.filter(address__in={service.address for service in services}):
        found[other.address].append(other)
    return {service.pk: [other for other in found[service.address] if other.pk != service.pk] for service in services}


def find_registrations_at(head: str, tail: str) -> QuerySet[RegistrationRecord]:
    """Find the registrations of all times at addresses that begin and end so, the whole address for both included.

    Each has at least four characters of an address, beside the 0x of one on an EVM chain.
    """
    pieces = [piece_of_ends(chain, head, tail) for chain in ("eip155:", "solana:")]
    return RegistrationRecord.objects.filter(pieces__overlap=pieces, address__istartswith=head, address__iendswith=tail)


def find_lookalikes(services: Sequence[Service]) -> dict[str, list[Lookalike]]:
    """Find the payees whose addresses are taken for that of each service, by the service's id, with one query."""
    pieces = {service.pk: set(pieces_like(service.chain, service.address)) for service in services}
    was_approved = Exists(ServiceDecision.objects.filter(registration=OuterRef("pk"), status=ServiceStatus.APPROVED))
    has_piece = RawSQL(_WITH_A_PIECE, [sorted(set().union(*pieces.values()))])  # noqa: S611 - it takes parameters
    known = RegistrationRecord.objects.filter(was_approved, pk__in=has_piece)
    candidates = list(known.select_related("service").order_by("service_id", "-id")) if services else []
    return {
        service.pk: _like(service, [one for one in candidates if not pieces[service.pk].isdisjoint(one.pieces)])
        for service in services
    }


def _like(service: Service, candidates: Sequence[RegistrationRecord]) -> list[Lookalike]:
    found = {
        (record.service_id, record.address): record
        for record in candidates
        if record.service_id != service.pk
        and is_lookalike(service.chain, service.address, record.chain, record.address)
    }
    return [Lookalike(record, compare_addresses(record, service)) for record in found.values()]


def compare_addresses(old: RegistrationRecord | Service, new: Service) -> Difference:
    """Compare the address of a registration with that of a service."""
    folds = ignores_case(old.chain) and ignores_case(new.chain)
    return compare(old.address, new.address, ignores_case=folds)
