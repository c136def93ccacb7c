"""One Finance account and a key that registers payees: together they get no payee's money past the second person."""

from dataclasses import replace
from typing import Any

import pytest

from foundation.kernel.assets import Asset
from services.admin import decisions
from services.models import Service
from services.operations import Registration, approve_service, register_service
from tests.foundation.console.conftest import Person
from tests.support.factories import new_name
from tests.support.sign_in import make_user

OLD, NEW = (f"evm-localnet:0x8c2bd4bb4a413e7d4719c811a309b3ac5877b4{end}" for end in ("74", "ff"))


def test_a_recipient_that_changes_after_it_was_judged_is_not_approved(
    db: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FOUR_EYES = True
    first = Registration(new_name("shop"), "A shop", OLD, Asset.USDC, "https://shop.example/hook")
    register_service(first)
    approve_service(first.id, by="anna", reason="Contract 7")
    harmless = replace(first, webhook_url="https://shop.example/new")
    register_service(harmless)
    find = decisions._find

    def find_and_register(services: Any) -> Any:
        """Register another recipient right behind the look at the harmless one."""
        found = find(services)
        register_service(replace(harmless, recipient=NEW))
        return found

    monkeypatch.setattr(decisions, "_find", find_and_register)
    thief = Person(make_user("Finance"))
    (said,) = thief.act("services_service", "approve", first.id, shown=[f"3 {first.id}"], reason="R")

    service = Service.objects.get(pk=first.id)
    assert "changed after it was shown" in said
    assert (service.registration, service.status) == (3, "pending_approval")
