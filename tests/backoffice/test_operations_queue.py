"""Chains that nobody observes, relayers without gas money and sign-ins that are locked out stand in the work queue."""

from collections.abc import Iterable
from datetime import timedelta

import pytest
from django.conf import settings as django_settings

from foundation.findings import Finding
from foundation.kernel.times import utc_now
from payments.findings.chains import find_troubles_of_chains
from payments.findings.relayers import find_short_relayers
from payments.models import ChainState, Relayer
from staff.audit import record
from staff.findings import find_lock_outs
from staff.models import AuditEntry
from tests.support.local_ids import LOCALNET

pytestmark = pytest.mark.django_db


def of(chain: str, items: Iterable[Finding]) -> list[Finding]:
    return [item for item in items if item.subject == chain]


@pytest.mark.parametrize(("seconds", "is_found"), [(-1, False), (1, True)])
def test_a_chain_is_found_once_its_state_is_too_old_to_pay(seconds, is_found):
    age = timedelta(seconds=django_settings.CHAIN_STATE_MAX_AGE_S + 60 * seconds)
    ChainState.objects.filter(chain=LOCALNET).update(observed_at=utc_now() - age)

    found = of(LOCALNET, find_troubles_of_chains())

    assert [item.says.startswith("evm-localnet is not observed") for item in found] == [True] * is_found


def test_a_chain_that_was_never_observed_is_found():
    ChainState.objects.filter(chain=LOCALNET).delete()

    (item,) = of(LOCALNET, find_troubles_of_chains())

    assert (item.severity, item.since) == ("error", None)


def test_relayers_short_of_gas_money_are_counted_and_none_left_is_worse():
    relayers = Relayer.objects.filter(chain=LOCALNET, is_enabled=True, most_cost__isnull=False)
    relayers.update(is_funded=True)
    assert of(LOCALNET, find_short_relayers()) == []

    first = relayers.order_by("number")[0]
    Relayer.objects.filter(pk=first.pk).update(is_funded=False)
    (some,) = of(LOCALNET, find_short_relayers())
    relayers.update(is_funded=False)
    (every,) = of(LOCALNET, find_short_relayers())

    assert (some.count, some.severity) == (1, "warning")
    assert (every.count, every.severity) == (relayers.count(), "error")
    assert "nothing is paid there" in every.says
    relayers.update(is_enabled=False)
    (none,) = of(LOCALNET, find_short_relayers())
    assert (none.says, none.severity) == (
        "evm-localnet: no relayer is in rotation: nothing is paid there.", "error"
    )  # fmt: skip


def test_people_who_are_locked_out_are_named_for_as_long_as_they_are():
    for name in ("kim", "kim", "unknown name"):
        record("person.locked_out", subject_type="person", subject=name, by="page of sign-in")

    (item,) = find_lock_outs()

    assert (item.count, item.page.permission) == (2, "staff.view_auditentry")
    assert item.says == "2 sign-ins are locked out after wrong passwords or codes: kim, unknown name."
    assert item.page.url == "/console/staff/auditentry/?action=person.locked_out"


def test_nobody_is_locked_out_for_ever(settings):
    record("person.locked_out", subject_type="person", subject="kim", by="page of sign-in")
    assert AuditEntry.objects.filter(action="person.locked_out").exists()
    settings.AXES_COOLOFF_TIME = timedelta(0)

    assert list(find_lock_outs()) == []
